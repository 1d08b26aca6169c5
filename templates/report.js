(() => {
  "use strict";
  const words = document.body.dataset;
  const AT_ONCE = 100;
  const UNITS = { ms: 0.001, s: 1, min: 60, h: 3600 };

  // What a cell is sorted by: a number, NaN being the worst one, or text; null where nothing was measured.
  const key = text => {
    if (text === "" || text === "–") return null;
    if (text === "NaN") return Infinity;
    if (text === "+Inf") return Number.MAX_VALUE;
    if (text === "-Inf") return -Infinity;
    const span = text.split(" … ").map(Number);
    if (span.length === 2 && !span.some(Number.isNaN)) return Math.max(...span.map(Math.abs));
    const [, digits, unit] = /^(-?[\d.]+(?:e-?\d+)?)(?: (%|ms|s|min|h)(?: \d+ min)?)?$/.exec(text) || [];
    return digits === undefined ? text.toLowerCase() : Number(digits) * (UNITS[unit] || 1);
  };
  const order = (a, b) => {
    if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
    return a < b ? -1 : a > b ? 1 : 0;
  };
  const element = (name, properties) => Object.assign(document.createElement(name), properties);

  for (const box of document.querySelectorAll(".sorts")) {
    const main = box.querySelector(":scope > .scroll tbody");
    const earlier = box.classList.contains("earlier");
    const details = box.querySelector("details.rest");
    const rest = details && details.querySelector("tbody");
    const first = [...main.rows];
    const folded = rest ? [...rest.rows] : [];
    const all = earlier ? [...folded, ...first] : [...first, ...folded];
    const summary = details && details.querySelector("summary");
    const says = summary && summary.textContent;
    let column = -1, down = false, wanted = "";

    const draw = () => {
      const rows = all.filter(row => row.textContent.toLowerCase().includes(wanted));
      if (column >= 0) {
        const keys = new Map(rows.map(row => [row, key(row.cells[column].textContent.trim())]));
        rows.sort((a, b) => {
          const [x, y] = [keys.get(a), keys.get(b)];
          if (x === null || y === null) return (x === null) - (y === null);
          return down ? order(y, x) : order(x, y);
        });
      }
      const limit = !rest ? rows.length : wanted ? AT_ONCE : first.length;
      // In order of execution it is the last rows that are shown, and those before them that are folded.
      const tail = earlier && column < 0 ? Math.max(rows.length - limit, 0) : 0;
      main.replaceChildren(...rows.slice(tail, tail + limit));
      state.textContent = wanted ? `${rows.length} / ${all.length}` : "";
      if (!rest) return;
      rest.replaceChildren(...rows.slice(0, tail), ...rows.slice(tail + limit));
      details.hidden = rows.length <= limit;
      summary.textContent = wanted || (earlier && column >= 0) ? words.more.replace("{count}", rows.length - limit) : says;
    };

    const state = element("output", {});
    if (all.length > 8) {
      const label = element("label", { className: "tools", textContent: words.filter });
      const field = element("input", { type: "search", autocomplete: "off", spellcheck: false });
      field.addEventListener("input", () => {
        wanted = field.value.trim().toLowerCase();
        draw();
      });
      label.append(field, state);
      box.querySelector(":scope > .caption").after(label);
    }
    const heads = [...main.closest("table").tHead.rows[0].cells];
    heads.forEach((head, at) => {
      const button = element("button", { type: "button", className: "sort", textContent: head.textContent });
      button.addEventListener("click", () => {
        down = column === at ? !down : head.classList.contains("number");
        column = at;
        heads.forEach(other => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        draw();
      });
      head.replaceChildren(button);
    });
  }

  const copier = (text, label) => {
    const button = element("button", { type: "button", className: "copy", textContent: label });
    button.addEventListener("click", () => {
      for (let box = text.parentElement; box; box = box.parentElement) if (box.tagName === "DETAILS") box.open = true;
      // Works for files too, where browsers may deny the newer clipboard interface.
      const selection = getSelection();
      selection.selectAllChildren(text);
      const done = document.execCommand("copy");
      if (done) selection.removeAllRanges();
      button.textContent = done ? words.done : label;
    });
    return button;
  };
  for (const text of document.querySelectorAll("pre.copied")) text.before(copier(text, words.copy));
  const acts = document.querySelector(".acts");
  for (const name of ["title", "summary"])
    acts.append(copier(document.getElementById(`ticket-${name}`), acts.dataset[name]));

  // Where a browser does not open what a link leads into.
  const reveal = () => {
    const aim = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    for (let box = aim; box; box = box.parentElement) if (box.tagName === "DETAILS") box.open = true;
    if (aim) aim.scrollIntoView();
  };
  addEventListener("hashchange", reveal);
  reveal();
})();
