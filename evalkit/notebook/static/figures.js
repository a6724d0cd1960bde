// The strip, notes, and the confusion matrix.
const KINDS = {
  same: "agree", near: "other level", "false pass": "✗ false pass", "false fail": "✗ false fail", differs: "✗ differs", none: "no verdict",
};
const interval = (value) => esc(value).replace(/-(?=\d)/g, "−").replace(/ \[(.*)\]/, " <i>[$1]</i>");
const drawTile = (tile) => `<div class="ekw-tile"><dt>${esc(tile.title)}</dt><dd><b>${interval(tile.value)}</b>${
  tile.moved ? `<span class="ekw-moved ekw-${esc(tile.mark || "as")}">${esc(tile.moved)}</span>` : ""}<small>${esc(tile.note)}</small></dd></div>`;

function figuresPart(ctx) {
  const { root, find, put, get } = ctx;
  const plural = (n, one, many) => (n === 1 ? one : many);
  const MOST_TABS = 3;
  const LONGEST = 100; // characters of the sentence that stay in one line; more is under Why
  function drawTabs(figures) {
    const names = (figures.criteria || []).length > 1 ? figures.criteria : [], few = names.length <= MOST_TABS;
    if (!few) return put(".ekw-tabs", `<select data-criterion data-key="criterion" aria-label="Criterion">${options(names, figures.criterion, (name) => name + tabFigure(figures.agreements?.[name]))}</select>`);
    put(".ekw-tabs", names.map((name) => `<button data-do="criterion" data-key="criterion ${esc(name)}" data-name="${esc(name)}" aria-pressed="${name === figures.criterion}" ${figures.agreements?.[name] ? `title="${esc(figures.agreements[name].text)}"` : ""}>${esc(name)}<span class="ekw-tab">${tabFigure(figures.agreements?.[name])}</span></button>`).join(""));
  }
  const tabFigure = (point) => (point && point.value !== null ? ` ${point.value.toFixed(2)}` : "");
  // The sentence that decides, in one line: before a run what it would ask, and what the spending limit keeps from running.
  function sentence(decision, first, status, isLimited) {
    const part = status.part ? ` <button data-do="part" data-key="part">${esc(status.part)}</button>` : "";
    if (isLimited) return `<b>Over the limit.</b> ${esc(status.button)}.${part} <button data-do="limit" data-key="limit">Raise the limit</button>`;
    if (!decision && !first) return get("page").judged ? "" : `<b>Nothing judged yet.</b> ${esc(status.plan || "")}`;
    if (!decision) return `<b>${esc(first.title)}</b> ${interval(first.value)} <span class="ekw-moved ekw-${esc(first.mark || "as")}">${esc(first.moved)}</span>`;
    const rest = decision.brief || decision.then, sign = decision.sign ? `<span class="ekw-${esc(decision.mark || "as")}" aria-hidden="true">${esc(decision.sign)}</span> ` : "";
    const words = interval(rest).replace(/^\d+ of \d+ \w+ right (?=\()/, '<span class="ekw-less">$&</span>'); // the interval says it too
    return `<b>${sign}${esc(decision.verdict)}</b> ${(decision.verdict + rest).length > LONGEST ? "" : words}`;
  }
  // What does not count, and why, and what P(pass) shows against people: one line each.
  function strays(figures) {
    const others = Object.entries(figures.other_criteria || {}).map(([name, n]) => `${counted(n, "label")} of “${name}”`);
    const newcomers = Object.entries(figures.newcomers || {}).map(([who, n]) => `${counted(n, "label")} of ${esc(who)} ${plural(n, "is", "are")} not in the figures. <button data-do="count_labels" data-key="count ${esc(who)}" data-name="${esc(who)}">Count labels of ${esc(who)}</button>`);
    const { other_texts: texts, off_scale: off, between } = figures;
    return [
      texts && `${counted(texts, "label")} in the file ${plural(texts, "belongs", "belong")} to other texts and ${plural(texts, "does", "do")} not count.`,
      off && `${counted(off, "label")} of this criterion ${plural(off, "is", "are")} not on its present scale, or of levels that had other codes, and ${plural(off, "does", "do")} not count.`,
      between && `${counted(between, "label")} between two levels (${plural(between, "a mean", "means")} of several people) ${plural(between, "has", "have")} no row in the matrix.`,
      others.length && `Not counted: ${esc(others.join(", "))}; the version shown has no such criterion.`,
      ...newcomers,
      ...(figures.pass_prob || []).map(esc),
    ].filter(Boolean);
  }
  function heldOut(figures) {
    const held = figures.held_out || {};
    if (!figures.split) return figures.cells?.length ? "You tune on all labels: with fewer than 50 labelled items, none are held out." : "";
    const words = held.looks ? `held-out: agreement <b>${esc(held.agreement)}</b>, kappa <b>${esc(held.kappa)}</b> (${esc(held.compared)}; ${esc(held.looks)})` : "Figures use the dev labels. Held-out labels stay hidden until you look at them; each look is counted.";
    return `<span>${words}</span>${figures.same ? "" : ' <button data-do="held_out" data-key="held_out">Look at held-out labels</button>'}`;
  }
  function drawTop() {
    const figures = get("figures"), status = get("status"), tiles = figures.tiles || [], first = tiles.find((tile) => tile.place === "head"), said = (status.running && status.decision) || figures.decision, decision = said?.verdict ? said : null;
    root.classList.toggle("ekw-browse", Boolean(figures.browse));
    drawTabs(figures);
    const isLimited = !status.running && isOver(status.button), line = sentence(decision, first, status, isLimited);
    put(".ekw-decision", line && `<p class="ekw-say">${line}</p>`);
    const measure = figures.measure && decision?.action !== "measure" && typeof get("price") === "string" ? `<button data-do="measure" data-key="measure" title="${esc(get("price"))}" ${offIf(status.running)}>Measure chance: ${esc(get("price").split(";")[0])}</button>` : "";
    const lines = [...strays(figures), ...(tiles.length ? [heldOut(figures)].filter(Boolean) : [])], notices = ctx.get("notices");
    const why = decision ? [`${decision.then}${decision.brief || isLimited ? ` ${decision.reason}` : ""}`, decision.brief || isLimited ? "" : decision.reason] : first ? [first.note] : [];
    put(".ekw-why", `${why.filter(Boolean).map((text) => `<p>${esc(text)}</p>`).join("")}${measure}${status.running || !get("page").judged || !status.plan ? "" : `<p class="ekw-plan">Run now: ${esc(status.plan)}</p>`}${status.paid ? `<p>${esc(status.paid)}</p>` : ""}`);
    put(".ekw-held", lines.map((text) => `<p>${text}</p>`).join(""));
    put(".ekw-tiles", tiles.map(drawTile).join(""));
    put(".ekw-facts", facts(figures, tiles, decision, first, status) + whyButton(Array.isArray(notices) ? notices : [], lines, tiles, decision));
  }
  // The agreement as a count of the labels in the matrix, where that is the same share: some labels may be in no cell.
  function agreesWith({ right, wrong, n_compared: items, agreements = {}, criterion }) {
    const n = right + wrong, share = agreements[criterion]?.value;
    return n && Math.abs(right / n - share) < 0.001 ? `agrees on <b>${+right} of ${+n}</b> ${n === items ? `labelled item${n === 1 ? "" : "s"}` : "labels"}` : "";
  }
  // One line of facts: which versions, how often the jury agrees with people, what changed, what was paid.
  function facts(figures, tiles, decision, first, status) {
    const agrees = agreesWith(figures), together = tiles.find((tile) => tile.place === "people"), change = tiles.find((tile) => tile.place === "change"), isValue = (tile) => tile && !/^(NA|–)/.test(tile.value), told = decision ? decision.brief || decision.then : "";
    const head = agrees ? `${agrees}${told.includes(first.value) ? "" : ` (${interval(first.value)})`}` : isValue(first) && decision ? `${esc(first.title)} <b>${interval(first.value)}</b>` : "";
    const others = figures.browse ? tiles.filter((tile) => tile !== first && isValue(tile)).map((tile) => `${esc(tile.title)} <b>${interval(tile.value)}</b>`) : [];
    const moved = !figures.browse && isValue(change) ? `changed <b>${esc(change.value)}</b>${change.moved ? ` <span class="ekw-${esc(change.mark || "as")}">${esc(change.moved.replace(" on dev labels", ""))}</span>` : ""}` : "";
    const all = [[head, ""], [moved, ""], ...others.map((text) => [text, ""]), [!figures.browse && isValue(together) ? `people with each other ${esc(together.value.split(",")[0])}` : "", "ekw-less"], [esc(status.paid).replace(/^paid: session (.+), project \1$/, "paid: $1"), "ekw-paid"]];
    return drawPick(figures) + all.filter(([text]) => text).map(([text, kind]) => `<span class="${kind}">${text}</span>`).join("");
  }
  function whyButton(notices, lines, tiles, decision) {
    const n = notices.length + lines.length, gravest = notices.find((one) => one.name)?.name;
    if (!n && !decision && !tiles.length) return "";
    return `<button data-do="why" data-key="why" aria-expanded="${root.classList.contains("ekw-noted")}">Why${n ? ` · ${counted(n, "note")}` : ""}${gravest ? `<span class="ekw-named">: ${esc(gravest)}</span>` : ""}</button>`;
  }
  function drawPick({ versions = [], current, against }) {
    if (versions.length < 2) return versions.length ? `<b>${esc(versions[0].name)}</b>` : "";
    const list = (pick, title, chosen, none) => `<select data-pick="${pick}" data-key="pick ${pick}" aria-label="${title}">${none}${versions.map(({ key, name, point }) => `<option value="${esc(key)}" ${key === chosen ? "selected" : ""}>${esc(name)}${point && point.value !== null ? `: ${point.value.toFixed(2)}` : ""}</option>`).reverse().join("")}</select>`;
    return `<span class="ekw-pick">${list("current", "Shown", current, "")} against ${list("against", "Compared with", against, `<option value="" ${against ? "" : "selected"}>nothing</option>`)}</span>`;
  }

  // Rows people, columns jury; thick lines where passing begins. The width of a cell follows from the number of columns.
  const LEGEND = " ▲ ▼ –: most judges pass or fail these items, or tie, though the label says otherwise.";
  const MOST = 24; // more columns than this do not fit anywhere
  function drawMatrix() {
    const cells = get("figures").cells || [], page = get("page"), chosen = page.query?.cell, region = find(".ekw-matrix");
    const title = "<h3>Where jury and people differ</h3>";
    if (get("figures").browse || !page.judged) return put(".ekw-matrix", "");
    if (!cells.length) return put(".ekw-matrix", `${title}<p class="ekw-empty">No item has a label that counts yet. The matrix appears with the first one: press Label next.</p>${sums()}`);
    const rows = [...new Map(cells.map((cell) => [cell.human, cell])).values()], same = (one, other) => one.jury === other.jury && one.verdict === other.verdict;
    const columns = cells.filter((cell, at) => cells.findIndex((other) => same(cell, other)) === at);
    if (columns.length > MOST) return put(".ekw-matrix", `${title}<p class="ekw-empty">${columns.length} different labels are too many for a matrix. The filter Jury ≠ people shows the items.</p>${sums()}`);
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
    const head = (cell, at) => `<th scope="col" class="${line(at)}" title="${esc(full(cell))}"><span class="ekw-sr">${esc(full(cell))}</span><span aria-hidden="true">${cell.jury === null ? "<small>none</small>" : esc(labels.of(cell.jury))}${cell.verdict ? ` <small>${esc({ pass: "▲", fail: "▼" }[cell.verdict] || "–")}</small>` : ""}</span></th>`;
    region.style.setProperty("--columns", columns.length);
    region.classList.toggle("ekw-words", labels.words);
    region.classList.toggle("ekw-few", few);
    region.classList.toggle("ekw-many", columns.length > (labels.words ? 10 : 12));
    const above = groups.length > 1 ? `<tr><td></td>${groups.map(([name, n], at) => (name ? `<th scope="colgroup" colspan="${n}" class="${at ? "ekw-from" : ""}">${at ? "" : "jury: "}${name}</th>` : `<td colspan="${n}" class="ekw-from"></td>`)).join("")}</tr>` : "";
    put(".ekw-matrix", `${title}<table><thead>${above}<tr><td><small>people</small></td>${columns.map(head).join("")}</tr></thead><tbody>${rows
      .map((row, at) => `<tr class="${at && row.human_passed !== rows[at - 1].human_passed ? "ekw-from-row" : ""}"><th scope="row">${labels.words ? `<small>${esc(labels.of(row.human))}</small> ` : ""}${esc(row.human)}</th>${columns.map((column, n) => `<td class="${line(n)}">${button(cells.find((cell) => cell.human === row.human && same(cell, column)))}</td>`).join("")}</tr>`).join("")}</tbody></table>
      <div class="ekw-beside">${sums()}<p>${differs()} Press a cell to see its items.${cells.some((cell) => cell.verdict && cell.n) ? LEGEND : ""}</p></div>`);
  }
  // What ties matrix, sentence and filter together: items and labels on which people and jury differ.
  function differs() {
    const { n_wrong: items, right, wrong } = get("figures");
    return `${counted(items, "item")} ${items === 1 ? "differs" : "differ"} from most people: ${+wrong} of ${counted(right + wrong, "label")}.`;
  }
  const sums = () => `<dl class="ekw-sums">${(get("figures").tiles || []).filter((tile) => tile.place === "fact" && !/^(NA|–)/.test(tile.value)).map((tile) => `<dt>${esc(tile.title)}</dt><dd>${interval(tile.value)}</dd>`).join("")}</dl>`;
  return { drawTop, drawMatrix };
}
