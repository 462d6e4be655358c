"use strict";
// Sorting, filtering and the comparison of two runs. Pages are complete without it; texts are set as text, never as markup.

const numberOf = text => {
  const found = parseFloat(text.replaceAll(",", ""));
  return Number.isNaN(found) ? null : found;
};

const keyOf = (row, column) => {
  const text = (row.cells[column]?.firstChild?.textContent ?? "").trim();
  return text === "-" || text === "" ? null : text;
};

const sortBy = (table, column, descending) => {
  const body = table.tBodies[0];
  const keyed = [...body.rows].map(row => [keyOf(row, column), row]);
  const known = keyed.filter(([key]) => key !== null);
  const numeric = known.every(([key]) => /^[+-]?[\d,]*\.?\d+([e(% ].*)?$/.test(key));
  const compare = (a, b) => numeric ? numberOf(a) - numberOf(b) : a.localeCompare(b, "en", { numeric: true });
  known.sort(([a], [b]) => descending ? compare(b, a) : compare(a, b));
  body.append(...known.map(([, row]) => row), ...keyed.filter(([key]) => key === null).map(([, row]) => row));
  return numeric;
};

const makeSortable = table => {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const before = head.getAttribute("aria-sort");
      heads.forEach(other => other.removeAttribute("aria-sort"));
      const numeric = [...table.tBodies[0].rows].some(row => numberOf(keyOf(row, column) ?? "") !== null);
      const down = before ? before === "ascending" : numeric && head.textContent !== "#";
      sortBy(table, column, down);
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
    });
  });
};

const makeFilters = figure => {
  const choices = [...figure.querySelectorAll("select[data-facet]")];
  if (!choices.length) return;
  const rows = [...figure.querySelectorAll("tbody tr")];
  const output = figure.querySelector("output");
  const show = () => {
    let shown = 0;
    for (const row of rows) {
      const values = JSON.parse(row.dataset.facets);
      row.hidden = choices.some(choice => choice.value !== "" && values[choice.dataset.facet] !== choice.value);
      shown += !row.hidden;
    }
    if (output) output.textContent = shown < rows.length ? `${shown} of ${rows.length} rows` : "";
  };
  choices.forEach(choice => {
    choice.closest("label").hidden = false;
    choice.addEventListener("change", show);
  });
  show();
};

const option = (value, text) => Object.assign(document.createElement("option"), { value, textContent: text });
const cell = text => Object.assign(document.createElement("td"), { textContent: text });

const compareRuns = data => {
  const [first, second, measure] = ["first", "second", "measure"].map(id => document.getElementById(id));
  const names = data.runs.map(([tag, name]) => `${name} (${tag})`);
  for (const chosen of [first, second]) chosen.append(...names.map((name, at) => option(at, name)));
  measure.append(...data.measures.map((one, at) => option(at, one.label)));
  const wanted = new URLSearchParams(location.hash.slice(1));
  const place = tag => data.runs.findIndex(([name]) => name === tag);
  first.value = Math.max(0, place(wanted.get("first")));
  second.value = place(wanted.get("second")) >= 0 ? place(wanted.get("second")) : Math.min(1, names.length - 1);
  const show = () => {
    const [a, b, one] = [+first.value, +second.value, data.measures[+measure.value]];
    const both = data.topics.map((topic, at) => [topic, one.values[at][a], one.values[at][b]])
      .filter(([, left, right]) => left !== null && right !== null);
    const pairs = both.map(([topic, left, right]) => [topic, left - right, left, right]).sort((x, y) => y[1] - x[1]);
    const count = test => pairs.filter(([, difference]) => test(difference)).length;
    const mean = pairs.reduce((sum, [, difference]) => sum + difference, 0) / Math.max(1, pairs.length);
    const p = one.p.find(([x, y]) => (x === a && y === b) || (x === b && y === a))?.[2];
    const tested = p === undefined ? "not tested against each other" :
      `${p >= 0.05 ? "cannot be told apart" : "told apart"} (p ${p < 0.001 ? "< .001" : p.toFixed(3)}, corrected for all pairs)`;
    document.getElementById("verdict").textContent = a === b ? "Choose two different runs." :
      `${one.label}: the first wins ${count(d => d > 0)} topics, loses ${count(d => d < 0)}, and equals on ` +
      `${count(d => d === 0)}; on average ${mean >= 0 ? "+" : ""}${mean.toFixed(4)}; ${tested}.`;
    const rows = pairs.map(([[id, title, day], difference, left, right]) => {
      const row = document.createElement("tr");
      const head = Object.assign(document.createElement("th"), { scope: "row" });
      head.append(Object.assign(document.createElement("a"), { href: `topics/${id}.html`, textContent: title }));
      const sign = cell(`${difference > 0 ? "+" : ""}${difference.toFixed(4)}`);
      sign.className = difference > 0 ? "right" : difference < 0 ? "wrong" : "";
      row.append(head, sign, cell(left.toFixed(4)), cell(right.toFixed(4)), cell(day));
      return row;
    });
    document.querySelector("#pairs tbody").replaceChildren(...rows);
    document.querySelectorAll("#pairs [aria-sort]").forEach(head => head.removeAttribute("aria-sort"));
    history.replaceState(null, "", `#${new URLSearchParams({ first: data.runs[a][0], second: data.runs[b][0] })}`);
  };
  for (const chosen of [first, second, measure]) chosen.addEventListener("change", show);
  document.getElementById("compare").hidden = false;
  show();
};

document.querySelectorAll("table[data-sortable]").forEach(makeSortable);
document.querySelectorAll("figure.table").forEach(makeFilters);
if (window.arenaRuns) compareRuns(window.arenaRuns);
