// A click on a column head sorts the table, largest first, then smallest first; the first head restores the printed order.
// Cells without a number stay last.
for (const table of document.querySelectorAll("figure.table table")) {
  const [body] = table.tBodies;
  const printed = [...body.rows];
  const lowest = [...table.tHead.rows].at(-1);
  const heads = [table.tHead.querySelector("th.row-header"), ...lowest.querySelectorAll("th.under")];
  const number = (row, column) => {
    const text = row.cells[column].innerText.replace("−", "-");
    const value = parseFloat(text.replace(/^>/, ""));
    return text.startsWith(">") ? value + 0.5 : value; // a target that is not reached comes last
  };
  heads.forEach((head, column) => {
    const sort = () => {
      const order = head.getAttribute("aria-sort") === "descending" ? "ascending" : "descending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      if (column) head.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      const rows = column ? [...printed].sort((first, second) => {
        const [a, b] = [number(first, column), number(second, column)];
        return Number.isNaN(a) - Number.isNaN(b) || sign * (a - b) || 0;
      }) : printed;
      body.append(...rows);
    };
    head.tabIndex = 0;
    head.title = column ? "Sort by this column" : "Restore the printed order";
    head.addEventListener("click", sort);
    head.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); sort(); }
    });
  });
}

// Opens the run that a number links to.
const reveal = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target instanceof HTMLDetailsElement) { target.open = true; target.scrollIntoView(); }
};
addEventListener("hashchange", reveal);
reveal();
