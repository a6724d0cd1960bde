// The strip of figures and versions, the confusion matrix, and notes on the labels.
const KINDS = {
  same: "agree", near: "other level", "false pass": "✗ false pass", "false fail": "✗ false fail", differs: "✗ differs", none: "no verdict",
};

function figuresPart(ctx) {
  const { root, find, put, get } = ctx;
  const SHORT = { "Agreement with people": "Agreement", "People among themselves": "People with each other" };
  const STRIP = ["Kappa", "Item score", "Pass rate", "Mean (0-1)"]; // of the small figures, those in the strip
  let tab; // whose tab was in view last
  function drawTop() {
    root.classList.toggle("ekw-browse", Boolean(get("figures").browse));
    const figures = get("figures"), several = (figures.criteria || []).length > 1;
    const tabs = find(".ekw-tabs"), isOther = figures.criterion !== tab;
    put(".ekw-tabs", several ? figures.criteria.map((name) => `<button data-do="criterion" data-key="criterion ${esc(name)}" data-name="${esc(name)}" aria-pressed="${name === figures.criterion}" ${figures.agreements?.[name] ? `title="${esc(figures.agreements[name].text)}"` : ""}>${esc(name)}${tabFigure(figures.agreements?.[name])}</button>`).join("") : "");
    if (isOther) tabs.scrollTop = (tabs.querySelector("[aria-pressed=true]")?.offsetTop ?? 0) - tabs.offsetTop;
    tab = figures.criterion;
    const tiles = figures.tiles || [], first = tiles.find((tile) => tile.place === "head"), status = get("status"), said = (status.running && status.decision) || figures.decision, decision = said?.verdict ? said : null;
    const button = figures.measure && typeof get("price") === "string" ? `<button data-do="measure" data-key="measure" title="${esc(get("price"))}" ${offIf(status.running)}>Measure chance: ${esc(get("price").split(";")[0])}</button>` : "";
    const inReason = decision?.action === "measure" ? button : "", measure = button && !inReason ? `<div class="ekw-held">${button}</div>` : "";
    const held = figures.held_out || {};
    const looked = held.looks
      ? `<span>held-out: agreement <b>${esc(held.agreement)}</b>, kappa <b>${esc(held.kappa)}</b> (${esc(held.compared)}; ${esc(held.looks)})</span>`
      : "<span>Figures use the dev labels. Held-out labels stay hidden until you look at them; each look is counted.</span>";
    const split = !tiles.length ? "" : figures.split
      ? `<div class="ekw-held" role="status">${looked}${figures.same ? "" : ' <button data-do="held_out" data-key="held_out">Look at held-out labels</button>'}</div>`
      : figures.cells?.length ? '<div class="ekw-held">You tune on all labels: with fewer than 50 labelled items, none are held out.</div>' : "";
    const strays = figures.other_texts ? `<div class="ekw-held">${counted(figures.other_texts, "label")} in the file ${figures.other_texts === 1 ? "belongs" : "belong"} to other texts and ${figures.other_texts === 1 ? "does" : "do"} not count.</div>` : "";
    const between = figures.between ? `<div class="ekw-held">${counted(figures.between, "label")} between two levels (${figures.between === 1 ? "a mean" : "means"} of several people) ${figures.between === 1 ? "has" : "have"} no row in the matrix.</div>` : "";
    const off = figures.off_scale ? `<div class="ekw-held">${counted(figures.off_scale, "label")} of this criterion ${figures.off_scale === 1 ? "is" : "are"} not on its present scale, or of levels that had other codes, and ${figures.off_scale === 1 ? "does" : "do"} not count.</div>` : "";
    const others = Object.entries(figures.other_criteria || {}).map(([name, n]) => `${counted(n, "label")} of “${name}”`);
    const gone = others.length ? `<div class="ekw-held">Not counted: ${esc(others.join(", "))}; the version shown has no such criterion.</div>` : "";
    const newcomers = Object.entries(figures.newcomers || {}).map(([who, n]) => `<div class="ekw-held">${counted(n, "label")} of ${esc(who)} ${n === 1 ? "is" : "are"} not in the figures. <button data-do="count_labels" data-key="count ${esc(who)}" data-name="${esc(who)}">Count labels of ${esc(who)}</button></div>`).join("");
    put(".ekw-decision", decision ? drawDecision(decision, inReason) : first ? `<p class="ekw-say"><b>${esc(first.title)}</b> ${interval(first.value)} <span class="ekw-moved ekw-${esc(first.mark || "as")}">${esc(first.moved)}</span></p><p>${esc(first.note)}</p>` : "");
    const told = decision ? decision.then + decision.reason : "", isFigure = (value) => !/^(NA|–)/.test(value) && !told.includes(value); // what has no value, or stands in the decision, is in "All figures"
    const facts = tiles.filter((tile) => (decision || tile !== first) && isFigure(tile.value) && (tile.place !== "fact" || figures.browse || STRIP.includes(tile.title)));
    const moves = (tile) => tile.moved && (!decision || tile.place === "change"); // the sentence has the difference of agreement, of the items that both judged
    put(".ekw-facts", facts.map((tile) => `<span class="${tile.place === "fact" && !figures.browse ? "ekw-less" : ""}">${esc(SHORT[tile.title] || tile.title)} <b>${interval(tile.value)}</b>${tile.place === "head" ? ` ${esc(tile.note.match(/^\d+ of \d+/)?.[0] || "")}${tile.note.includes("no interval") ? " <i>(no interval)</i>" : ""}` : ""}${moves(tile) ? `${tile.place === "head" ? "," : ""} <span class="ekw-${esc(tile.mark || "as")}">${esc(tile.moved.replace(" on dev labels", ""))}</span>` : ""}${tile.brief ? ` <span class="ekw-brief">${esc(tile.brief)}</span>` : ""}</span>`).join(""));
    put(".ekw-tiles", tiles.map(drawTile).join(""));
    find('[data-box="figures"]').hidden = !tiles.length;
    put(".ekw-points", drawPoints(figures));
    put(".ekw-pick", drawPick(figures));
    put(".ekw-notes", measure + split + strays + off + between + gone + newcomers);
  }
  const tabFigure = (point) => { // agreement with people; the interval where there is room
    if (!point || point.value === null) return "";
    const [value, low, high] = [point.value, point.low, point.high].map((number) => number?.toFixed(2));
    return ` <span class="ekw-tab">${value}${low === undefined ? "" : `<span class="ekw-less"> [${low}, ${high}]</span>`}</span>`;
  };
  const interval = (value) => esc(value).replace(/-(?=\d)/g, "−").replace(/ \[(.*)\]/, " <i>[$1]</i>");
  const drawDecision = (one, button) => `<p class="ekw-say"><b>${one.sign ? `<span class="ekw-${esc(one.mark || "as")}" aria-hidden="true">${esc(one.sign)}</span> ` : ""}${esc(one.verdict)}</b> ${esc(one.then)}</p><p>${esc(button ? one.reason.replace(" Measure chance.", "") : one.reason)} ${button}</p>`;
  const drawTile = (tile) => `<div class="ekw-tile ekw-at-${esc(tile.place)}"><dt>${esc(tile.title)}</dt><dd><b>${interval(tile.value)}</b>${
    tile.moved ? `<span class="ekw-moved ekw-${esc(tile.mark || "as")}">${esc(tile.moved)}</span>` : ""}<small>${esc(tile.note)}</small></dd></div>`;
  // Where there is no room for the points, two lists choose the versions.
  function drawPick({ versions = [], current, against }) {
    const { paid } = get("status"), sum = paid ? `<small class="ekw-paid">${esc(paid)}</small>` : "";
    if (versions.length < 2) return sum;
    const list = (pick, title, chosen, none) => `<label class="ekw-short">${title} <select data-pick="${pick}" data-key="pick ${pick}">${none}${versions.map(({ key, name, point }) => `<option value="${esc(key)}" ${key === chosen ? "selected" : ""}>${esc(name)}${point && point.value !== null ? `: ${point.value.toFixed(2)}` : ""}</option>`).reverse().join("")}</select></label>`;
    return list("shown", "Shown", current, "") + list("against", "Compared with", against, `<option value="" ${against ? "" : "selected"}>nothing</option>`) + sum;
  }
  // One point with its interval per version; the dashed line is that of people among themselves.
  function drawPoints({ versions = [], axis, people, current, against }) {
    if (!axis || !versions.some(({ point }) => point && point.value !== null)) return "";
    const y = (value) => (100 * (value - axis[0])) / (axis[1] - axis[0]), line = (name, low, high) => `<i class="ekw-${name}" style="bottom:${y(low)}%;height:${y(high) - y(low)}%"></i>`;
    const buttons = versions.filter(({ point }) => point).map(({ key, name, note, point }) => {
      const use = key === current ? "shown" : key === against ? "compared with" : "", about = [`${name}: ${point.text}`, use, note].filter(Boolean).join("; ");
      const marks = point.value === null ? "" : (point.low === null ? "" : line("whisker", point.low, point.high)) + line("point", point.value, point.value);
      return `<button class="ekw-dot ${use && `ekw-${use.split(" ")[0]}`}" data-do="version" data-key="version ${esc(key)}" data-version="${esc(key)}" aria-pressed="${key === current}" aria-label="${esc(about)}" title="${esc(about)}. Click: show. Shift-click: compare with it."><span class="ekw-plot">${people === null ? "" : line("limit", people, people)}${marks}</span>${esc(name)}</button>`;
    });
    return `<div class="ekw-dots" role="group" aria-label="Versions, with 95 % intervals"><span class="ekw-axis" aria-hidden="true"><small>${axis[1].toFixed(1)}</small><small>${axis[0].toFixed(1)}</small></span>${buttons.join("")}</div>`;
  }

  // Rows people, columns jury; thick lines where passing begins. The width of a cell follows from the number of columns.
  // What ▲, ▼ and – below a column mean, of those that have items.
  function legendOf(cells) {
    const has = (labelled, verdicts) => cells.some((cell) => cell.n && (cell.jury !== null) === labelled && verdicts.includes(cell.verdict));
    return [
      has(true, ["pass", "fail"]) && "▲ or ▼ below a label: most judges passed (▲) or failed (▼) the item, though the level nearest to their mean says otherwise. The verdict counts.",
      has(false, ["pass", "fail"]) && "▲ or ▼ below none: the judges agree on no level, but most of them passed (▲) or failed (▼) the item.",
      cells.some((cell) => cell.n && cell.verdict && !["pass", "fail"].includes(cell.verdict)) && "– below a label: as many judges pass the item as fail it, so it has no verdict.",
    ].filter(Boolean).map((text) => ` ${text}`).join("");
  }
  const MOST = 24; // more columns than this do not fit anywhere
  function drawMatrix() {
    const cells = get("figures").cells || [], page = get("page"), chosen = page.query?.cell, region = find(".ekw-matrix");
    const title = "<h3>Where jury and people differ</h3>";
    if (!cells.length) return put(".ekw-matrix", page.judged && !get("figures").browse ? `${title}<p class="ekw-empty">No item has a label that counts yet. The matrix appears with the first one: press Label next.</p>` : "");
    const rows = [...new Map(cells.map((cell) => [cell.human, cell])).values()], same = (one, other) => one.jury === other.jury && one.verdict === other.verdict;
    const columns = cells.filter((cell, at) => cells.findIndex((other) => same(cell, other)) === at);
    if (columns.length > MOST) return put(".ekw-matrix", `${title}<p class="ekw-empty">${columns.length} different labels are too many for a matrix. The filter Jury ≠ people shows the items.</p>`);
    const none = rows.every(({ human }) => human === "pass" || human === "fail") ? "no verdict" : "no label";
    const labels = shortLabels([...new Set(rows.map(({ human }) => human))]), full = (cell) => [cell.jury ?? none, cell.verdict].filter(Boolean).join(" ");
    const kind = (cell) => (cell.kind === "none" && cell.jury === null ? none : KINDS[cell.kind]), most = Math.max(1, ...cells.map((cell) => cell.n));
    const few = columns.length < 5, group = (cell) => (cell.jury === null || cell.jury_passed === null ? "" : verdict(cell.jury_passed));
    const groups = ["fail", "pass", ""].map((name) => [name, columns.filter((cell) => group(cell) === name).length]).filter(([, n]) => n);
    const line = (at) => (at && group(columns[at]) !== group(columns[at - 1]) ? "ekw-from" : "");
    const button = (cell) => {
      const key = cells.indexOf(cell), on = chosen && chosen[0] === cell.human && chosen[1] === cell.jury && (chosen[2] || "") === cell.verdict;
      const share = cell.kind === "none" ? 0 : Math.round((32 * cell.n) / most);
      return `<button class="ekw-cell ekw-${esc(cell.kind.replace(" ", "-"))}" style="--p:${share}%" data-do="cell" data-key="cell ${key}" data-cell="${key}" aria-pressed="${Boolean(on)}" ${cell.n ? "" : "disabled"}
        aria-label="people ${esc(cell.human)}, jury ${esc(full(cell))}: ${counted(cell.n, "label")}, ${esc(kind(cell))}"><b>${+cell.n || "·"}</b>${few ? `<small>${esc(kind(cell))}</small>` : ""}</button>`;
    };
    const head = (cell, at) => `<th scope="col" class="${line(at)}" title="${esc(full(cell))}"><span class="ekw-sr">${esc(full(cell))}</span><span aria-hidden="true">${cell.jury === null ? "<small>none</small>" : esc(labels.of(cell.jury))}${cell.verdict ? `<br><small>${esc({ pass: "▲", fail: "▼" }[cell.verdict] || "–")}</small>` : ""}</span></th>`;
    region.style.setProperty("--columns", columns.length);
    region.classList.toggle("ekw-words", labels.words);
    region.classList.toggle("ekw-few", few);
    region.classList.toggle("ekw-many", columns.length > (labels.words ? 10 : 12));
    const above = groups.length > 1 ? `<tr><td></td>${groups.map(([name, n], at) => (name ? `<th scope="colgroup" colspan="${n}" class="${at ? "ekw-from" : ""}">${at ? "" : "jury: "}${name}</th>` : `<td colspan="${n}" class="ekw-from"></td>`)).join("")}</tr>` : "";
    put(".ekw-matrix", `${title}<table><thead>${above}<tr><td><small>people</small></td>${columns.map(head).join("")}</tr></thead><tbody>${rows
      .map((row, at) => `<tr class="${at && row.human_passed !== rows[at - 1].human_passed ? "ekw-from-row" : ""}"><th scope="row">${labels.words ? `<small>${esc(labels.of(row.human))}</small> ` : ""}${esc(row.human)}</th>${columns.map((column, n) => `<td class="${line(n)}">${button(cells.find((cell) => cell.human === row.human && same(cell, column)))}</td>`).join("")}</tr>`).join("")}</tbody></table>
      <p>Each person's label counts once. ${groups.length > 1 ? "Orange frame: people and jury give different verdicts. Thick lines: from where on an item passes. " : ""}Press a cell to see its items.${cells.some((cell) => cell.verdict && cell.n)
        ? legendOf(cells) : ""}</p>`);
  }
  return { drawTop, drawMatrix };
}
