// Opens the run that a number leads to.
const reveal = () => {
  const place = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (place instanceof HTMLDetailsElement) { place.open = true; place.scrollIntoView(); }
};
addEventListener("hashchange", reveal);
reveal();
