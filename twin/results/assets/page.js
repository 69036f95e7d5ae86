"use strict";
/* Tables sort by a click on a column's head: first from the greatest, then from the least. */
(function () {
  function value(cell) { // a number where the text begins with one; null where there is nothing
    const text = cell.textContent.trim();
    if (text === "" || text === "–") return null;
    const plain = text.replace(/[,\u2009\u202f]/g, "").replace(/^[−–]/, "-");
    return /^[-+±]?\d+(\.\d*)?(e[-+]?\d+)?(\s|%|$)/i.test(plain) ? parseFloat(plain.replace(/^±/, "")) : text;
  }

  function compare(a, b) {
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b), "en", { numeric: true });
  }

  function sort(table, column, direction) {
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row, index) => ({ row, index, value: value(row.cells[column]) }));
    rows.sort((a, b) => {
      if (a.value === null || b.value === null) return (a.value === null) - (b.value === null) || a.index - b.index;
      return direction * compare(a.value, b.value) || a.index - b.index;
    });
    body.append(...rows.map((each) => each.row));
  }

  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const first = typeof value(table.tBodies[0].rows[0]?.cells[column] ?? head) === "number" ? "descending" : "ascending";
        const other = first === "descending" ? "ascending" : "descending";
        const order = head.getAttribute("aria-sort") === first ? other : first;
        heads.forEach((each) => each.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", order);
        sort(table, column, order === "ascending" ? 1 : -1);
      });
    });
  }
})();
