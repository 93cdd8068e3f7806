// Sorts a table by a column when its head is chosen, largest first, then smallest first; the first column's head puts the
// rows back into the printed order. What is no number stays last. Needs no library and no network.
for (const table of document.querySelectorAll("figure.table table")) {
  const [body] = table.tBodies;
  const printed = [...body.rows];
  const lowest = [...table.tHead.rows].at(-1);
  const heads = [table.tHead.querySelector("th.row-header"), ...lowest.querySelectorAll("th.under")];
  const number = (row, place) => {
    const text = row.cells[place].innerText.replace("−", "-");
    const found = parseFloat(text.replace(/^>/, ""));
    return text.startsWith(">") ? found + 0.5 : found; // a target that is not reached comes after all rounds that are
  };
  heads.forEach((head, place) => {
    const sort = () => {
      const order = head.getAttribute("aria-sort") === "descending" ? "ascending" : "descending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      if (place) head.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      const rows = place ? [...printed].sort((one, other) => {
        const [a, b] = [number(one, place), number(other, place)];
        return Number.isNaN(a) - Number.isNaN(b) || sign * (a - b) || 0;
      }) : printed;
      body.append(...rows);
    };
    head.tabIndex = 0;
    head.title = place ? "Sort by this column" : "Back to the printed order";
    head.addEventListener("click", sort);
    head.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); sort(); }
    });
  });
}
