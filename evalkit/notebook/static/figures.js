// Tiles, the confusion matrix, and what there is to say of labels.
const KINDS = {
  same: "agree", near: "other level", "false pass": "✗ false pass", "false fail": "✗ false fail", differs: "✗ differs", none: "no verdict",
};

function figuresPart(ctx) {
  const { root, find, put, get } = ctx;
  function drawTop() {
    root.classList.toggle("ekw-browse", Boolean(get("board").browse));
    const board = get("board"), several = (board.criteria || []).length > 1;
    const tabs = several
      ? `<div class="ekw-tabs" role="group" aria-label="Criterion">${board.criteria
          .map((name) => `<button data-do="criterion" data-key="criterion ${esc(name)}" data-name="${esc(name)}" aria-pressed="${name === board.criterion}">${esc(name)}</button>`)
          .join("")}</div>`
      : "";
    const tiles = (board.tiles || [])
      .map((tile) => `<div class="ekw-tile"><dt>${esc(tile.title)}</dt><dd><b>${esc(tile.value).replace(/ \[(.*)\]/, ' <i>[$1]</i>')}</b>${
          tile.moved ? `<span class="ekw-moved ekw-${esc(tile.mark || "as")}">${esc(tile.moved)}</span>` : ""}<small>${esc(tile.note)}</small></dd></div>`)
      .join("");
    const held = board.held_out || {};
    const looked = held.looks
      ? `<span>held-out: agreement <b>${esc(held.agreement)}</b>, kappa <b>${esc(held.kappa)}</b> (${esc(held.compared)}; ${esc(held.looks)})</span>`
      : "<span>Figures are of the dev labels. The held-out labels stay unseen until you look; each look is counted.</span>";
    const split = !tiles ? "" : board.split
      ? `<div class="ekw-held" role="status">${looked} <button data-do="held_out" data-key="held_out">Look at held-out labels</button></div>`
      : board.cells?.length ? '<div class="ekw-held">Tuned on these labels: under 50 labelled items nothing is held out.</div>' : "";
    const strays = board.strays ? `<div class="ekw-held">${counted(board.strays, "label")} in the file ${board.strays === 1 ? "is" : "are"} about other texts, and left out.</div>` : "";
    const off = board.off_scale ? `<div class="ekw-held">${counted(board.off_scale, "label")} of this criterion ${board.off_scale === 1 ? "is" : "are"} not on its scale as it is now, and left out.</div>` : "";
    const others = Object.entries(board.elsewhere || {}).map(([name, n]) => `${counted(n, "label")} of “${name}”`);
    const gone = others.length ? `<div class="ekw-held">Left out: ${esc(others.join(", "))}, which the version that is shown has not among its criteria.</div>` : "";
    const name = (key) => (board.versions || []).find((one) => one.key === key)?.label;
    const which = !tiles || !name(board.current) ? "" : `<div class="ekw-held">Shown is ${esc(name(board.current))}${name(board.against) ? `, compared with ${esc(name(board.against))}` : ""}.</div>`;
    put(".ekw-top", tabs + (tiles ? `<dl class="ekw-tiles">${tiles}</dl>` : "") + which + split + strays + off + gone);
  }

  function drawMatrix() {
    const cells = get("board").cells || [], chosen = get("page").query?.cell;
    if (!cells.length) return put(".ekw-matrix", "");
    const humans = [...new Set(cells.map((cell) => cell.human))];
    const column = (cell) => [cell.jury ?? "none", cell.verdict].filter(Boolean).join(" ");
    const juries = [...new Set(cells.map(column))];
    const of = (human, jury) => cells.find((cell) => cell.human === human && column(cell) === jury) || { human, jury, verdict: "", n: 0, kind: "none" };
    const kind = (cell) => (cell.kind === "none" && cell.jury === null ? "no label" : KINDS[cell.kind]);
    const button = (cell, key) => {
      const on = chosen && chosen[0] === cell.human && chosen[1] === cell.jury && (chosen[2] || "") === cell.verdict;
      return `<td><button class="ekw-cell ekw-${esc(cell.kind.replace(" ", "-"))}" data-do="cell" data-key="cell ${key}" data-cell="${key}" aria-pressed="${Boolean(on)}" ${cell.n ? "" : "disabled"}
        aria-label="people ${esc(cell.human)}, jury ${esc(column(cell))}: ${counted(cell.n, "label")}, ${esc(kind(cell))}"><b>${+cell.n}</b><small>${esc(kind(cell))}</small></button></td>`;
    };
    put(".ekw-matrix", `<table><caption>People ↓ &nbsp; Jury →</caption><thead><tr><td></td>${juries.map((jury) => `<th scope="col">${esc(jury)}</th>`).join("")}</tr></thead><tbody>${humans
      .map((human) => `<tr><th scope="row">${esc(human)}</th>${juries.map((jury) => button(of(human, jury), cells.indexOf(of(human, jury)))).join("")}</tr>`).join("")}</tbody></table>
      <small>each annotator's label counts once, ✗ goes by verdicts; choose a cell to see its items${cells.some((cell) => cell.verdict && cell.n)
        ? "<br>“1 pass”: most judges passed it, though the level nearest to their mean is 1 (“fail”, “no verdict” likewise); the verdict counts" : ""}</small>`);
  }
  return { drawTop, drawMatrix };
}
