"use strict";
// Sorts a table by the column whose heading is pressed; what is unknown comes last in either direction.
(() => {
  const key = (row, column) => row.cells[column].dataset.sort;

  function compare(left, right) {
    const numbers = [Number(left), Number(right)];
    return numbers.some(Number.isNaN) ? left.localeCompare(right, "en", { numeric: true }) : numbers[0] - numbers[1];
  }

  function sort(table, heading) {
    const column = heading.cellIndex;
    const down = heading.ariaSort === "ascending";
    const rows = [...table.tBodies[0].rows];
    const known = rows.filter((row) => key(row, column) !== undefined);
    known.sort((one, other) => (down ? -1 : 1) * compare(key(one, column), key(other, column)));
    table.tBodies[0].append(...known, ...rows.filter((row) => key(row, column) === undefined));
    for (const each of heading.parentElement.cells) each.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
  }

  for (const table of document.querySelectorAll("table.sortable")) {
    for (const heading of table.tHead.rows[0].cells) {
      heading.querySelector("button").addEventListener("click", () => sort(table, heading));
    }
  }
})();
