// A click sorts a table by that column: up, down, then as it was. Cells without a number stay last.
const pieces = text => text.split(/(\d+(?:\.\d+)?)/);
const compare = (a, b) => {  // "gap 0.05" comes before "gap 0.1", "JSD 2" before "JSD 10"
  const x = pieces(a), y = pieces(b);
  for (let i = 0; i < Math.min(x.length, y.length); i++) {
    const order = i % 2 ? x[i] - y[i] : x[i].localeCompare(y[i], "en");
    if (order) return order;
  }
  return x.length - y.length;
};
const number = text => {
  const found = text.replace(/\u2212/g, "-").match(/^[<\s]*([+-]?\d[\d,.]*(?:e[+-]?\d+)?)/);
  return found ? parseFloat(found[1].replace(/,/g, "")) : NaN;
};
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0], original = [...body.rows], heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    head.tabIndex = 0;
    const sort = () => {
      const next = { ascending: "descending", descending: null }[head.getAttribute("aria-sort")];
      const order = next === undefined ? "ascending" : next;
      heads.forEach(other => other.removeAttribute("aria-sort"));
      if (order) head.setAttribute("aria-sort", order);
      const sign = order === "descending" ? -1 : 1;
      const keyed = original.map(row => {
        const text = row.cells[column].textContent.trim();
        return { row, text, value: column === 0 ? NaN : number(text) };
      });
      if (order) keyed.sort((a, b) => {
        const x = Number.isNaN(a.value), y = Number.isNaN(b.value);
        if (x !== y) return x - y;
        if (x && !a.text !== !b.text) return !a.text - !b.text;
        return sign * (x ? compare(a.text, b.text) : a.value - b.value);
      });
      body.append(...keyed.map(entry => entry.row));
    };
    head.addEventListener("click", sort);
    head.addEventListener("keydown", event => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); sort(); }
    });
  });
}
// A link into a folded part opens it.
const reveal = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
};
addEventListener("hashchange", reveal);
reveal();
