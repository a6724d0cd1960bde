// The strip of figures and versions, the confusion matrix, and notes on the labels.
const KINDS = {
  same: "agree", near: "other level", "false pass": "✗ false pass", "false fail": "✗ false fail", differs: "✗ differs", none: "no verdict",
};

function figuresPart(ctx) {
  const { root, find, put, get } = ctx;
  function drawTop() {
    root.classList.toggle("ekw-browse", Boolean(get("figures").browse));
    const figures = get("figures"), several = (figures.criteria || []).length > 1;
    const tabs = several
      ? `<div class="ekw-tabs" role="group" aria-label="Criterion">${figures.criteria
          .map((name) => `<button data-do="criterion" data-key="criterion ${esc(name)}" data-name="${esc(name)}" aria-pressed="${name === figures.criterion}">${esc(name)}</button>`)
          .join("")}</div>`
      : "";
    const tiles = figures.tiles || [], at = (place) => tiles.filter((tile) => tile.place === place).map(drawTile).join("");
    const measure = figures.measure && typeof get("price") === "string" ? `<div class="ekw-held"><button data-do="measure" data-key="measure" ${offIf(get("status").running)}>Measure chance: ${esc(get("price"))}</button></div>` : "";
    const held = figures.held_out || {};
    const looked = held.looks
      ? `<span>held-out: agreement <b>${esc(held.agreement)}</b>, kappa <b>${esc(held.kappa)}</b> (${esc(held.compared)}; ${esc(held.looks)})</span>`
      : "<span>Figures use the dev labels. Held-out labels stay hidden until you look at them; each look is counted.</span>";
    const split = !tiles.length ? "" : figures.split
      ? `<div class="ekw-held" role="status">${looked} <button data-do="held_out" data-key="held_out">Look at held-out labels</button></div>`
      : figures.cells?.length ? '<div class="ekw-held">You tune on all labels: with fewer than 50 labelled items, none are held out.</div>' : "";
    const strays = figures.other_texts ? `<div class="ekw-held">${counted(figures.other_texts, "label")} in the file ${figures.other_texts === 1 ? "belongs" : "belong"} to other texts and ${figures.other_texts === 1 ? "does" : "do"} not count.</div>` : "";
    const off = figures.off_scale ? `<div class="ekw-held">${counted(figures.off_scale, "label")} of this criterion ${figures.off_scale === 1 ? "is" : "are"} not on its present scale and ${figures.off_scale === 1 ? "does" : "do"} not count.</div>` : "";
    const others = Object.entries(figures.other_criteria || {}).map(([name, n]) => `${counted(n, "label")} of “${name}”`);
    const gone = others.length ? `<div class="ekw-held">Not counted: ${esc(others.join(", "))}; the version shown has no such criterion.</div>` : "";
    const newcomers = Object.entries(figures.newcomers || {}).map(([who, n]) => `<div class="ekw-held">${counted(n, "label")} of ${esc(who)} ${n === 1 ? "is" : "are"} not in the figures. <button data-do="count_labels" data-key="count ${esc(who)}" data-name="${esc(who)}">Count labels of ${esc(who)}</button></div>`).join("");
    put(".ekw-top", tabs + (tiles.length ? `<div class="ekw-strip"><dl class="ekw-tiles">${at("head")}${at("people")}</dl>${drawPoints(figures)}<dl class="ekw-tiles ekw-change">${at("change")}</dl></div><dl class="ekw-facts">${at("fact")}</dl>` : ""));
    put(".ekw-notes", measure + split + strays + off + gone + newcomers);
  }
  const drawTile = (tile) => `<div class="ekw-tile ekw-at-${esc(tile.place)}"><dt>${esc(tile.title)}</dt><dd><b>${esc(tile.value).replace(/ \[(.*)\]/, " <i>[$1]</i>")}</b>${
    tile.moved ? `<span class="ekw-moved ekw-${esc(tile.mark || "as")}">${esc(tile.moved)}</span>` : ""}<small>${esc(tile.note)}</small></dd></div>`;
  // One point with its interval per version; the dashed line is that of people among themselves.
  function drawPoints({ versions = [], axis, people, current, against }) {
    if (!axis) return "";
    const y = (value) => (100 * (value - axis[0])) / (axis[1] - axis[0]), line = (name, low, high) => `<i class="ekw-${name}" style="bottom:${y(low)}%;height:${y(high) - y(low)}%"></i>`;
    const buttons = versions.filter(({ point }) => point).map(({ key, name, note, point }) => {
      const use = key === current ? "shown" : key === against ? "compared with" : "", about = [`${name}: ${point.text}`, use, note].filter(Boolean).join("; ");
      const marks = point.value === null ? "" : (point.low === null ? "" : line("whisker", point.low, point.high)) + line("point", point.value, point.value);
      return `<button class="ekw-dot ${use && `ekw-${use.split(" ")[0]}`}" data-do="version" data-key="version ${esc(key)}" data-version="${esc(key)}" aria-pressed="${key === current}" aria-label="${esc(about)}" title="${esc(about)}. Click: show. Shift-click: compare with it."><span class="ekw-plot">${people === null ? "" : line("limit", people, people)}${marks}</span>${esc(name)}</button>`;
    });
    return `<div class="ekw-dots" role="group" aria-label="Versions, with 95 % intervals"><span class="ekw-axis" aria-hidden="true"><small>${axis[1].toFixed(1)}</small><small>${axis[0].toFixed(1)}</small></span>${buttons.join("")}</div>`;
  }

  function drawMatrix() {
    const cells = get("figures").cells || [], chosen = get("page").query?.cell;
    if (!cells.length) return put(".ekw-matrix", "");
    const humans = [...new Set(cells.map((cell) => cell.human))];
    const none = humans.every((one) => one === "true" || one === "false") ? "no verdict" : "no label";
    const column = (cell) => [cell.jury ?? none, cell.verdict].filter(Boolean).join(" ");
    const juries = [...new Set(cells.map(column))];
    const of = (human, jury) => cells.find((cell) => cell.human === human && column(cell) === jury) || { human, jury, verdict: "", n: 0, kind: "none" };
    const kind = (cell) => (cell.kind === "none" && cell.jury === null ? none : KINDS[cell.kind]);
    const button = (cell, key) => {
      const on = chosen && chosen[0] === cell.human && chosen[1] === cell.jury && (chosen[2] || "") === cell.verdict;
      return `<td><button class="ekw-cell ekw-${esc(cell.kind.replace(" ", "-"))}" data-do="cell" data-key="cell ${key}" data-cell="${key}" aria-pressed="${Boolean(on)}" ${cell.n ? "" : "disabled"}
        aria-label="people ${esc(cell.human)}, jury ${esc(column(cell))}: ${counted(cell.n, "label")}, ${esc(kind(cell))}"><b>${+cell.n}</b><small>${esc(kind(cell))}</small></button></td>`;
    };
    put(".ekw-matrix", `<table><caption>People ↓ &nbsp; Jury →</caption><thead><tr><td></td>${juries.map((jury) => `<th scope="col">${esc(jury)}</th>`).join("")}</tr></thead><tbody>${humans
      .map((human) => `<tr><th scope="row">${esc(human)}</th>${juries.map((jury) => button(of(human, jury), cells.indexOf(of(human, jury)))).join("")}</tr>`).join("")}</tbody></table>
      <small>each annotator's label counts once; ✗ compares verdicts; click a cell to see its items${cells.some((cell) => cell.verdict && cell.n)
        ? "<br>“1 pass”: most judges passed the item, but the level nearest to their mean is 1. The verdict counts. The same holds for “fail” and “no verdict”." : ""}</small>`);
  }
  return { drawTop, drawMatrix };
}
