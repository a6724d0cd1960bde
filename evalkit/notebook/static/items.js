// The table of items, and the open item.
const FILTERS = {
  all: ["", "All"], wrong: ["≠", "Jury ≠ people"], broke: ["▼", "Broke"], fixed: ["▲", "Fixed"], changed: ["↻", "Changed"], moved: ["±", "Got or lost a verdict"],
  split: ["◐", "Judges disagree"], tied: ["○", "Tied"], unscored: ["○", "Not fully scored"], unlabelled: ["", "No label"],
};
const ORDERS = [ // column, descending, title
  ["review", true, "needs review first"], ["split", true, "judges disagree most"], ["change", true, "changed first"], ["jury", false, "jury: low first"],
  ["jury", true, "jury: high first"], ["people", false, "people: low first"], ["people", true, "people: high first"], ["item", false, "by id"], ["file", false, "as in the file"],
];
const BRIEF = 300, SHORT = 30; // characters
const CHANGES = { // sign, word, and whether it is better or worse
  fixed: ["▲", "fixed", "better"], broke: ["▼", "broke", "worse"], "now passes": ["△", "passes"], "now fails": ["▽", "fails"], changed: ["↻", "changed"],
  "verdict appeared": ["+", "appeared"], "verdict lost": ["−", "lost"], "label appeared": ["+", "appeared"], "label lost": ["−", "lost"],
};
const LONG_TURN = 280;
const EACH = " each"; // no input has this name
const verdict = (passed) => (passed === true ? "pass" : passed === false ? "fail" : "none");
const letter = (at) => String.fromCharCode(65 + (at % 26));

// How labels are written where there is little room: words by their place on the scale, all others as they are.
function shortLabels(codes = []) {
  const words = codes.some((code) => code.length > 4), place = (code) => codes.indexOf(code) + 1;
  return { words, of: (label) => (words && place(label) ? String(place(label)) : label), legend: words ? codes.map((code) => `${place(code)}: ${code}`).join(" · ") : "" };
}

// The heads of people's slots: two letters of each name, or more where two names begin the same way.
function initials(names) {
  const heads = names.map((name) => name.slice(0, 2));
  return heads.map((head, at) => (heads.indexOf(head) === heads.lastIndexOf(head) ? head : `${names[at][0]}${names[at].at(-1)}`));
}

function itemsPart(ctx) {
  const { root, find, put, get } = ctx;
  const look = { text: "", columns: null, unfolded: new Set(), shown: null, at: 0, turning: 0, md: false };
  const labelsNow = () => shortLabels(get("page").codes);
  function chip(label, passed, people, who, beside) {
    const off = people !== null && people !== undefined && passed !== null && passed !== people, said = label === null ? "no label" : label;
    const word = [said, beside ? `verdict ${beside}` : verdict(passed) === "none" ? "no verdict" : verdict(passed)].join(", ");
    return `<span class="ekw-chip ekw-${verdict(passed)}${off ? " ekw-off" : ""}" title="${esc(who)}: ${esc(word)}"><span aria-hidden="true">${esc(label === null ? "–" : labelsNow().of(label))}</span><span class="ekw-sr">${esc(who)} ${esc(word)}${off ? ", against people" : ""}</span></span>`;
  }
  // The columns of the items that stand in the rows, as chosen; `filter` lists those with few values.
  const columnsShown = (page) => (look.columns || []).filter((name) => name in page.item_columns);
  function columnTools(page, query) {
    const option = (value, text) => `<option value="${esc(JSON.stringify(value))}" ${JSON.stringify(value) === JSON.stringify(query.column) ? "selected" : ""}>${esc(text)}</option>`, all = Object.entries(page.item_columns);
    const boxes = all.map(([name]) => `<label class="ekw-check"><input type="checkbox" data-show="${esc(name)}" data-key="show ${esc(name)}" ${columnsShown(page).includes(name) ? "checked" : ""}>${esc(name)}</label>`).join("");
    const values = all.filter(([, few]) => few.length).map(([name, few]) => `<optgroup label="${esc(name)}">${few.map((value) => option([name, value], `${name}: ${value || "(none)"}`)).join("")}</optgroup>`).join("");
    return boxes + (values ? `<label class="ekw-short">Only <select data-column data-key="column" aria-label="Column of the items">${option(null, "all")}${values}</select></label>` : "");
  }
  const changes = {
    column: ({ value }) => ctx.ask({ column: JSON.parse(value) }),
    order: ({ value }) => { const [sort, down, name] = JSON.parse(value), { column } = get("page").query; ctx.ask({ sort, down, ...(name && column?.[0] !== name ? { column: [name, null] } : {}) }); },
    text: ({ value }) => { look.text = value; drawRows(); },
    show: ({ dataset, checked }) => { look.columns = [...(look.columns || []).filter((name) => name !== dataset.show), ...(checked ? [dataset.show] : [])]; drawRows(); drawItem(); },
  };
  const chosenText = (page) => (look.text === EACH || page.inputs.includes(look.text) ? look.text : page.own || (page.judged_inputs.length > 1 ? EACH : page.judged_inputs[0] ?? ""));
  // A criterion that takes points away is a fault: met, it is a loss.
  function met(passed, points) {
    if (passed === null || passed === undefined) return '<span class="ekw-dim">no verdict</span>';
    const isFault = Number(points) < 0, isGood = passed !== isFault;
    return `<span class="ekw-${isGood ? "better" : "worse"}">${isGood ? "✓" : "✗"} ${isFault ? (passed ? "fault found" : "not there") : passed ? "met" : "not met"}</span>`;
  }
  function marks(row) {
    const change = CHANGES[row.change], isBroken = row.change === "broke"; // that it broke says that it differs
    const all = [isBroken ? change : row.wrong && ["≠", "differs", "worse"], !isBroken && change, row.status !== "ok" && ["○", row.status], row.split && ["◐", "split"]];
    return all.filter(Boolean).slice(0, 2).map(([one, name, tone]) => `<div class="ekw-${tone || "as"}" title="${esc(name)}"><span aria-hidden="true">${one}</span><span class="ekw-sr">${esc(name)}</span></div>`).join("");
  }
  function people(row, annotators) {
    if (row.held) return '<small title="its labels stay hidden while you tune">held out</small>';
    const given = Object.entries(row.people), short = labelsNow().of;
    const outside = (who) => who in row.people && row.counted[who] !== row.people[who]; // a label that no figure uses
    const slot = (who, label, text = short(label)) => { const about = `${esc(who)}: ${esc(label)}${outside(who) ? ", not in the figures" : ""}`; return `<span class="ekw-human ${outside(who) ? "ekw-out" : ""}" title="${about}"><span class="ekw-sr">${about}</span><span aria-hidden="true">${esc(text)}</span></span>`; };
    if (annotators.length < 4) return annotators.map((who) => (who in row.people ? slot(who, row.people[who]) : '<span class="ekw-human ekw-nil"></span>')).join("");
    if (!given.length) return "";
    const counts = [...new Set(given.map(([, label]) => label))].map((label) => [given.filter(([, other]) => other === label).length, label]).sort(([one], [other]) => other - one);
    const [[n, label], next] = counts, isTie = next?.[0] === n; // of a tie, no label is the most frequent
    return `${slot(given.map(([who, one]) => `${who} ${one}`).join(", "), isTie ? "tie" : label, isTie ? "=" : short(label))} <small>${isTie ? counts.map(([one]) => one).join(":") : `${n}:${given.length - n}`}</small>`;
  }
  function text(row, page, chosen) {
    const id = row.item_id.length > 20 ? `${row.item_id.slice(0, 9)}…${row.item_id.slice(-9)}` : row.item_id, name = `<span class="ekw-id" title="${esc(row.item_id)}">${esc(id)}</span>`;
    if (chosen !== EACH) return `<div class="ekw-two">${name}${esc(row.texts[chosen] ?? "")}</div>`;
    return page.inputs.filter((input) => row.texts[input]).map((input, at) => `<div class="ekw-one">${at ? "" : name}<small>${esc(input)}</small> ${esc(row.texts[input])}</div>`).join("") || `<div class="ekw-two">${name}</div>`;
  }
  function drawTools(page, query) {
    const filters = Object.entries(FILTERS).filter(([name]) => name === "all" || name === query.filter || ((!page.filters || page.filters.includes(name)) && page.counts[name]));
    const only = query.column && query.column[1] !== null ? `<button data-do="uncolumn" data-key="uncolumn">× ${esc(query.column[0])} = ${esc(query.column[1] || "(none)")}</button>` : "";
    const cell = query.cell ? `<button data-do="uncell" data-key="uncell">× people ${esc(query.cell[0])}, jury ${esc([query.cell[1] ?? "none", query.cell[2]].filter(Boolean).join(" "))}</button>` : "";
    put(".ekw-filters", filters.map(([name, [sign, title]]) => `<button data-do="filter" data-key="filter ${name}" data-name="${name}" aria-pressed="${name === query.filter}">${sign ? `<span aria-hidden="true">${sign}</span> ` : ""}${esc(title)} <i>${+page.counts[name]}</i></button>`).join("") + only + cell);
    const option = (value, title, on) => `<option value="${esc(value)}" ${on ? "selected" : ""}>${esc(title)}</option>`, chosen = chosenText(page);
    const orders = [...ORDERS, ...new Set([...(query.column ? [query.column[0]] : []), ...columnsShown(page)])].flatMap((one) => (Array.isArray(one) ? [one] : [["column", false, one, one], ["column", true, `${one}, falling`, one]]));
    put(".ekw-choose", `<details class="ekw-columns-shown"><summary>Columns</summary><div>${columnTools(page, query)}
      ${page.inputs.length > 1 ? `<label class="ekw-short">Text <select data-text data-key="text" aria-label="Text of the rows">${page.inputs.map((name) => option(name, page.judged_inputs.includes(name) ? `${name} (judged)` : name, name === chosen)).join("")}${option(EACH, "one line of each", chosen === EACH)}</select></label>` : ""}
      <label class="ekw-short">Order <select data-order data-key="order" aria-label="Order of the rows">${orders.map(([sort, down, title, name]) => option(JSON.stringify([sort, down, name ?? null]), title, sort === query.sort && down === query.down && (!name || name === query.column?.[0]))).join("")}</select></label></div></details>`);
    if (ctx.focused() !== find("[data-search]")) put(".ekw-search", `<input type="search" data-search data-key="search" aria-label="Search items" placeholder="Search ids, columns, texts" value="${esc(query.search)}">`);
  }
  function drawRows() {
    const page = get("page"), query = page.query || {}, item = get("item").item_id;
    if (!page.judged) {
      ["filters", "choose", "search", "foot"].forEach((name) => put(`.ekw-${name}`, ""));
      put(".ekw-list", `<div class="ekw-first"><h3>${counted(page.n_items, "item")}, ${get("figures").current ? "reading the cache …" : "nothing judged yet"}</h3><p>Run asks the judges. Replies are cached: nothing is paid twice. Then look at the items that need review, label them, edit the rubric beside, and run again.</p></div>`);
      return;
    }
    drawTools(page, query);
    const judges = [...new Set(page.rows.flatMap((row) => row.votes.map(([who]) => who)))], columns = columnsShown(page), annotators = page.annotators, labels = labelsNow(), chosen = chosenText(page);
    const heads = initials(annotators), shows = annotators.length > 0 || page.rows.some((row) => row.held);
    const longest = Math.max(1, ...[...(page.codes || []), ...page.rows.flatMap((row) => [row.jury, ...row.votes.map(([, label]) => label)])].map((label) => labels.of(label ?? "").length));
    const slots = annotators.length > 3 ? 72 : Math.max(page.rows.some((row) => row.held) ? 62 : 44, 6 + annotators.length * (18 + 8 * Math.max(1, ...annotators.map((who) => Math.max(...page.rows.map((row) => labels.of(row.people[who] ?? "").length))))));
    const head = `<th scope="col" class="ekw-g"><span class="ekw-sr">Marks</span></th><th scope="col" class="ekw-t">${esc(chosen === EACH ? page.inputs.join(", ") : chosen)}</th>${columns.map((name) => `<th scope="col" class="ekw-x">${esc(name)}</th>`).join("")}${
      shows ? `<th scope="col" class="ekw-p" style="width:${slots}px"><span class="ekw-sr">People: ${esc(annotators.join(", "))}</span><span aria-hidden="true">${annotators.length > 3 ? "people" : heads.map((one, at) => `<abbr title="${esc(annotators[at])}">${esc(one)}</abbr>`).join("")}</span></th>` : ""
    }<th scope="col" class="ekw-j">Jury</th>${judges.map((who, at) => `<th scope="col" class="ekw-k" style="width:${Math.max(34, 18 + 8 * longest)}px" title="${esc(who)}"><span aria-hidden="true">${letter(at)}</span><span class="ekw-sr">${esc(who)}</span></th>`).join("")}`;
    const focus = page.rows.some((row) => row.item_id === item) ? item : page.rows[0]?.item_id;
    // the criteria of an item stand below one line with its points
    const ofItem = (row, at) => (row.item && row.item !== page.rows[at - 1]?.item ? `<tr class="ekw-of"><th colspan="${3 + columns.length + shows}" scope="rowgroup" class="ekw-t"><b>${esc(row.item)}</b> ${esc(row.points)}</th>${judges.map(() => '<td class="ekw-k"></td>').join("")}</tr>` : "");
    const jury = (row) => `<td class="ekw-j">${row.item ? met(row.passed, row.item_columns.points) : chip(row.jury, row.passed, row.people_passed, "jury", row.conflicts[""])}</td>`;
    const body = page.rows.map((row, at) => `${ofItem(row, at)}<tr data-do="select" data-key="row ${esc(row.item_id)}" data-id="${esc(row.item_id)}" tabindex="${row.item_id === focus ? 0 : -1}" aria-selected="${row.item_id === item}">
      <td class="ekw-g">${marks(row)}</td><th scope="row" class="ekw-t">${text(row, page, chosen)}</th>${columns.map((name) => `<td class="ekw-x">${esc(row.item_columns[name])}</td>`).join("")}${shows ? `<td class="ekw-p">${people(row, annotators)}</td>` : ""}
      ${jury(row)}${judges.map((name) => `<td class="ekw-k">${row.votes.filter(([who]) => who === name).map(([who, label, passed]) => chip(label, passed, row.people_passed, who, row.conflicts[who])).join("")}</td>`).join("")}</tr>`).join("");
    const at = [...root.querySelectorAll("tr[data-id]")].indexOf(ctx.focused());
    put(".ekw-list", `<table role="grid" aria-label="Judged items" aria-rowcount="${+page.n}"><thead><tr>${head}</tr></thead><tbody>${body || `<tr><td colspan="${4 + judges.length}" class="ekw-empty">No item matches. Clear the filter or the search.</td></tr>`}</tbody></table>`);
    const left = [...root.querySelectorAll("tr[data-id]")], next = left[Math.min(at, left.length - 1)];
    if (at >= 0 && !root.contains(ctx.focused())) { // a labelled row has left the filter: the next one has the focus
      if (next) reachable(left, next);
      (next || find("[data-search]")).focus();
    }
    put(".ekw-foot", `<span role="status">${page.n_pages > 1 ? `${page.start + 1}–${page.start + page.rows.length} · ` : ""}${+page.n} of ${counted(page.n_items, "item")}</span>${labels.legend ? `<span>${esc(labels.legend)}</span>` : ""}<span class="ekw-push"></span>${get("figures").browse ? "" : `<button data-do="export" data-key="export" title="A file beside the session: ids, columns, texts, labels, verdicts of both versions, reasons">Export ${+page.n} as CSV</button>`}${ctx.pager(page)}`);
    if (look.turning && page.rows.length) { // J or K has turned the page
      const turned = page.rows.at(look.turning > 0 ? 0 : -1);
      look.turning = 0;
      open(turned.item_id);
    }
  }

  // What a run left open: one quiet line each, with a filter that shows its items.
  function drawNotices() {
    const chosen = get("page").query?.filter, notices = ctx.get("notices");
    put(".ekw-notices", notices.map((one) => `<div class="ekw-notice"><span>${esc(one.text)}</span>${one.filter
      ? ` <button data-do="filter" data-key="notice" data-name="${esc(one.filter)}" aria-pressed="${chosen === one.filter}">Show ${counted(one.n_items, "item")} with a reply that has no score${get("figures").criteria?.length > 1 ? ` on ${esc(get("figures").criterion)}` : ""}</button>` : ""}${
      one.again ? ` <button data-do="again" data-key="again" ${offIf(get("status").running)}>Ask again: ${esc(one.again)}</button>` : ""}${
      one.advice.length ? `<details><summary>what to do</summary><ul>${one.advice.map((line) => `<li>${esc(line)}</li>`).join("")}</ul></details>` : ""}</div>`).join(""));
  }
  // -- one item
  // A line per judge with the labels of its samples, those of the other version before them where they differ; then its
  // reasons, equal ones once. `rest` has the other version's reasons and the raw replies, which are folded.
  function judgeArticles(judges, versions) {
    const chips = (side) => side.samples.map((one) => chip(one.label, one.passed, undefined, "sample")).join(" ");
    const before = (judge) => (!versions ? "" : judge.same ? `<small>same replies in ${esc(versions[1])}</small>` : !judge.before ? `<small>not in the jury of ${esc(versions[1])}</small>` : `<small>${esc(versions[1])}</small> ${chips(judge.before)} <small>→ ${esc(versions[0])}</small>`);
    const mean = (judge) => [judge.score !== null ? `mean ${judge.score}` : judge.label === null ? (judge.reason ?? "unscored").replaceAll("_", " ") : "", judge.passed === null ? "" : verdict(judge.passed)].filter(Boolean).join(", ");
    return judges.map((judge, at) => `<article aria-label="${esc(judge.judge)}"><h4>${judge.gone ? "" : `<span class="ekw-letter">${letter(at)}</span> `}${esc(judge.judge)} ${judge.gone ? `<small>not in the jury of ${esc(versions[0])}</small>` : `${before(judge)} ${chips(judge)} <small>${esc(mean(judge))}</small>`}</h4>${judge.gone ? "" : reasons(judge)}</article>`).join("");
  }
  function reasons(judge) {
    const said = new Map();
    judge.samples.forEach((one) => { const key = JSON.stringify([one.label, one.order, one.error, one.explanation, one.pass_prob]), n = said.get(key)?.n || 0; said.set(key, { ...one, n: n + 1 }); });
    return `<ol>${[...said.values()].map((one) => `<li>${chip(one.label, one.passed, undefined, "sample")}<span>${one.n > 1 ? `${one.n}× ` : ""}${one.pass_prob == null ? "" : `<small>P(pass) ${one.pass_prob.toFixed(2)}</small> `}${one.order ? `<small>${esc(one.order)}${one.order === "BA" ? ": answers shown in swapped order, so A in the explanation is answer_b, and B is answer_a" : ""}</small> ` : ""}${
      one.error ? `<span class="ekw-worse">✗ ${esc(one.error.replaceAll("_", " "))}</span> ` : ""}${esc(one.explanation ?? "")}</span></li>`).join("")}</ol>`;
  }
  function rest(judges, versions, prompt) {
    const old = (versions ? judges : []).filter((judge) => judge.before && !judge.same).map((judge) => `<h4>${esc(versions[1])}: ${esc(judge.judge)}</h4>${reasons(judge.before)}`).join("");
    const raw = judges.filter((judge) => judge.samples.some((one) => one.reply)).map((judge) => `<h4>Raw replies of ${esc(judge.judge)}</h4>${judge.samples.map((one) => (one.reply ? `<pre>${esc(one.reply)}</pre>` : "")).join("")}`).join("");
    const title = [old && `reasons of ${versions[1]}`, raw && "raw replies", prompt && "prompt"].filter(Boolean).join(", ");
    return title ? `<details class="ekw-prompt"><summary>${esc(title[0].toUpperCase() + title.slice(1))}</summary>${old}${raw}${prompt ? `<h4>The prompt of the judges</h4><pre>${esc(prompt)}</pre>` : ""}</details>` : "";
  }
  // A text with its lines. Fenced code in it, and code as a whole, have a fixed width; a diff has coloured lines.
  function body(text, form) {
    if (!text.trim() && !form.images?.length) return `<p class="ekw-dim">(empty)</p>`;
    if (form.turns?.length) return turns(form.turns);
    if (form.kind === "diff") return `<pre class="ekw-diff-text">${text.trimEnd().split("\n").map((line) => `<span class="${/^\+(?!\+\+)/.test(line) ? "ekw-plus" : /^-(?!--)/.test(line) ? "ekw-minus" : ""}">${esc(line) || " "}</span>`).join("")}</pre>`;
    if (form.kind && form.kind !== "text") return `<pre>${esc(text.trimEnd())}</pre>`;
    return text.split(/^```.*$/m).map((part, at) => (at % 2 ? `<pre>${esc(part.replace(/^\n|\n$/g, ""))}</pre>` : part.trim() ? `<div class="ekw-prose">${esc(part.replace(/^\n+|\s+$/g, ""))}</div>` : "")).join("");
  }
  // A conversation, with the numbers of its messages, as judges see them: of long turns all but the last are folded to a line.
  function turns(all) {
    const turn = ([number, who, said], at) => {
      const isLong = at < all.length - 1 && (said.length > LONG_TURN || said.split("\n").length > 4), prose = `<div class="ekw-prose">${esc(said)}</div>`;
      return `<div class="ekw-turn"><b>${+number} ${esc(who)}</b>${isLong ? `<details><summary>${esc(said.slice(0, 90))} … <small>${said.length} characters</small></summary>${prose}</details>` : prose}</div>`;
    };
    return all.map(turn).join("");
  }
  const images = (name, all = []) => all.map((source, at) => `<details class="ekw-image"><summary title="Press to enlarge"><img src="${esc(source)}" alt="Image ${at + 1} of ${esc(name)}"></summary></details>`).join("");
  const links = (all = []) => all.map((one, at) => `<p><a href="${esc(one)}" target="_blank" rel="noopener noreferrer">Open image ${at + 1}</a> <small>${esc(one)}</small></p>`).join("");
  const isMarked = (text, form) => form.kind === "text" && /(^|\n)(#{1,6} |\d+\. |[-*] |```|\|)|\*\*|`/.test(text);
  // In the order of the items; what is judged comes first where `isJudgedFirst`, after short texts that the rubric names before it.
  function inputs(shown, forms = {}, isJudgedFirst = false) {
    const judged = ([name]) => forms[name]?.judged || false, first = shown.findIndex(judged);
    const leads = shown.filter((one, at) => judged(one) || (at < first && one[1].length < BRIEF));
    const sorted = isJudgedFirst ? [...leads, ...shown.filter((one) => !leads.includes(one))] : shown;
    return `<div class="ekw-ins">${sorted.map(([name, text]) => { const form = forms[name] || {}, all = look.unfolded.has(name) || form.turns?.length > 0, marked = !isJudgedFirst && isMarked(text, form);
      return `<section aria-label="${esc(name)}" class="${form.judged ? "ekw-judged" : ""}"><h4>${esc(name)}${form.judged ? " (judged)" : ""}${marked ? ` <button class="ekw-quiet" data-do="md" data-key="md ${esc(name)}" aria-pressed="${look.md}" aria-keyshortcuts="m">rendered <kbd>M</kbd></button>` : ""}${!isJudgedFirst && form.turns?.length > 3 ? ` <button class="ekw-quiet" data-do="last_turn" data-key="last ${esc(name)}">to the last of ${form.turns.length} ▾</button>` : ""}</h4><div class="ekw-fold ${all ? "ekw-all" : ""} ${form.judged ? "ekw-long" : ""}">${marked && look.md ? `<div class="ekw-prose ekw-md">${rendered(text)}</div>` : body(text, form)}</div><button class="ekw-quiet" data-do="fold" data-key="fold ${esc(name)}" data-name="${esc(name)}" aria-expanded="${all}" hidden></button>${images(name, form.images)}${links(form.links)}</section>`; }).join("")}</div>`;
  }
  function toggleMarkdown() {
    look.md = !look.md;
    drawItem();
  }
  // A control stands only where something is folded; how many lines a text has depends on the width.
  function measureFolds() {
    root.querySelectorAll(".ekw-fold").forEach((box) => {
      const all = box.classList.contains("ekw-all"), button = box.nextElementSibling, lines = Math.round(box.scrollHeight / (parseFloat(getComputedStyle(box).lineHeight) || 20));
      button.hidden = all ? !look.unfolded.has(button.dataset.name) : box.scrollHeight <= box.clientHeight + 1;
      box.classList.toggle("ekw-cut", !all && !button.hidden);
      button.textContent = all ? "Fold" : `Show all ${lines} lines`;
      button.setAttribute("aria-label", `${button.textContent} of ${button.dataset.name}`);
    });
  }
  const widths = new ResizeObserver(measureFolds);
  widths.observe(root);
  const place = (id) => get("page").rows?.findIndex((row) => row.item_id === id) ?? -1;
  // The item's own id and columns (press one: only items with its value), what jury and people say, and the label to give.
  function itemHead(item, codes) {
    const page = get("page"), figures = get("figures"), at = place(item.item_id), rows = page.rows?.length || 0, [sign, word, mood] = CHANGES[item.change] || [], here = at < 0 ? look.at : at;
    const off = (step) => offIf(!rows || (step < 0 ? page.start + here <= 0 : page.start + here + (at < 0 ? 0 : 1) >= page.n));
    const shown = Object.entries(item.columns || {}).filter(([, value]) => value && value.length <= 60 && !item.inputs.some(([, text]) => text === value)), chosen = shown.filter(([name]) => look.columns?.includes(name));
    const own = (chosen.length ? chosen : shown.filter(([, value]) => value.length <= SHORT).slice(0, 4)).map(([name, value]) => `<button class="ekw-mine" data-do="own" data-key="own ${esc(name)}" data-name="${esc(name)}" data-value="${esc(value)}" title="Only items with ${esc(name)} = ${esc(value)}"><small>${esc(name)}</small> ${esc(value)}</button>`).join("");
    const labels = Object.entries(item.labels).map(([who, label]) => `<span class="ekw-human">${esc(who)}: ${esc(label)}</span>`).join(" ");
    const was = item.versions && item.before !== item.jury ? `${chip(item.before, item.before_passed, undefined, item.versions[1])} → ` : "";
    const jury = item.judges.length ? `<span>Jury ${was}${item.siblings ? met(item.passed, item.columns.points) : chip(item.jury, item.passed, item.people_passed, "jury")}</span>` : "";
    const mark = sign ? `<span class="ekw-${mood || "as"}">${sign} ${esc(word)}${item.versions ? ` since ${esc(item.versions[1])}` : ""}</span>` : item.wrong ? '<span class="ekw-worse">≠ differs</span>' : "";
    const say = figures.browse ? "" : `<span class="ekw-labels">${item.held ? "held out: other people's labels stay hidden ·" : ""} ${labels || "no label yet"}</span><span class="ekw-push"></span>
      <span class="ekw-label-line" role="group" aria-label="Your label"><input data-annotator data-key="annotator" value="${esc(figures.annotator)}" aria-label="Annotator" title="Label as">${codes}${item.labels[figures.annotator] === undefined ? "" : '<button class="ekw-quiet" data-do="label" data-key="unlabel">Take back</button>'}</span>`;
    return `<header class="ekw-item-head"><div class="ekw-line"><h3>${esc(item.item_id)}${figures.criteria?.length > 1 ? ` <small>${esc(item.criterion)}</small>` : ""}</h3>${own}<span class="ekw-nav"><small>${at < 0 ? "not in this list" : `${page.start + at + 1} of ${+page.n}`}</small>
      <button data-do="step" data-key="step -1" data-step="-1" aria-label="Previous" aria-keyshortcuts="k" ${off(-1)}>◂ <kbd>K</kbd></button><button data-do="step" data-key="step 1" data-step="1" aria-label="Next" aria-keyshortcuts="j" ${off(1)}><kbd>J</kbd> ▸</button><button data-do="close_item" data-key="close item" aria-label="Close" aria-keyshortcuts="Escape"><kbd>Esc</kbd> ×</button></span></div>
      <div class="ekw-line">${jury}${mark}${say}</div></header>`;
  }
  // One criterion of an item: the requirement first, and below its texts all criteria of the item.
  function requirement(item, own) {
    const text = item.inputs.find(([name]) => name === own)?.[1], points = Number(item.columns.points ?? 1), isFault = points < 0;
    return `<div class="ekw-req ${isFault ? "ekw-fault" : ""}"><small>${isFault ? `a fault, costs ${-points} points` : `required, gives ${points} points`}</small><p dir="auto">${esc(text)}</p></div>`;
  }
  // Its criteria by axis, each with the points that are got and possible; those that are open are in neither.
  function siblings(item) {
    const axes = [...new Set(item.siblings.map((one) => one.axis ?? ""))];
    const sum = (all, of) => points(all.reduce((total, one) => total + of(one), 0));
    const says = (all) => { const open = all.filter((one) => one.earned === null).length; return `${sum(all, (one) => one.earned ?? 0)} of ${sum(all, (one) => Math.max(0, one.worth))} points${open ? `, ${open} open` : ""}`; };
    const line = (one) => `<li><span class="ekw-n ${one.worth < 0 ? "ekw-worse" : ""}">${points(one.worth, "+")}</span><button data-do="select" data-key="sibling ${esc(one.row)}" data-id="${esc(one.row)}" ${one.row === item.item_id ? 'aria-current="true"' : ""}>${esc(one.text.slice(0, BRIEF))}${one.needs ? ` <small>${esc(one.needs)}</small>` : ""}</button>${met(one.passed, one.worth)}</li>`;
    const part = (axis) => { const all = item.siblings.filter((one) => (one.axis ?? "") === axis); return `${axes.length > 1 ? `<h4><button class="ekw-mine" data-do="own" data-key="axis ${esc(axis)}" data-name="axis" data-value="${esc(axis)}" title="Only criteria of this axis">${esc(axis || "no axis")}</button> <small>${says(all)}</small></h4>` : ""}<ul class="ekw-siblings">${all.map(line).join("")}</ul>`; };
    return `<section aria-label="Criteria of the item"><h4>all criteria of this item: ${esc(item.points)}</h4>${axes.map(part).join("")}</section>`;
  }
  const points = (value, sign = "") => (value === null ? "open" : `${value > 0 ? sign : ""}${+(Math.abs(value) < 0.1 ? value.toPrecision(2) : value.toFixed(2))}`.replace("-", "−"));
  function drawItem() {
    const item = get("item"), figures = get("figures"), panel = find(".ekw-item");
    panel.toggleAttribute("data-keep", look.shown === item.item_id); // another item starts with all details closed
    if (look.shown !== item.item_id) look.unfolded.clear();
    look.shown = item.item_id;
    root.classList.toggle("ekw-opened", Boolean(item.item_id));
    if (!item.item_id) return put(".ekw-item", "");
    if (place(item.item_id) >= 0) look.at = place(item.item_id);
    const own = item.siblings ? get("page").own : "", mine = item.labels[figures.annotator];
    const codes = item.levels.map(([code, , key]) => `<button data-do="label" data-key="label ${esc(code)}" data-label="${esc(code)}" aria-pressed="${mine === code}">${key && key !== code ? `<kbd>${esc(key)}</kbd> ` : ""}${esc(code)}</button>`).join("");
    const judges = [...item.judges, ...(item.gone || []).map((judge) => ({ ...judge, before: judge, gone: true }))], replies = judges.length || item.prompt ? `<div class="ekw-judges">${judgeArticles(judges, item.versions)}${rest(judges, item.versions, item.prompt)}</div>` : "";
    put(".ekw-item", `${itemHead(item, codes)}<div class="ekw-item-body"><div>${own ? requirement(item, own) : ""}${inputs(item.inputs.filter(([name]) => name !== own), item.forms)}${item.siblings ? siblings(item) : ""}</div>${replies}</div>`);
    measureFolds();
  }
  // Show the panel of an item that was just chosen; its top stays in place from item to item.
  function reveal() {
    if (!ctx.wanted || get("item").item_id !== ctx.wanted) return;
    ctx.wanted = null;
    const panel = find(".ekw-item");
    if (!panel.contains(ctx.focused())) panel.focus({ preventScroll: true });
    const top = panel.getBoundingClientRect().top, strip = parseFloat(root.style.getPropertyValue("--top")) || 0;
    if (top < strip || top > window.innerHeight * 0.5) panel.scrollIntoView({ block: "start" });
  }
  const mark = () => markRow(ctx, "id", get("item").item_id);
  function open(id) {
    ctx.wanted = id;
    ctx.send({ do: "select", item_id: id });
  }
  // The next or previous item of the filter; at the end of a page the page turns.
  function step(by) {
    const page = get("page"), at = place(get("item").item_id), to = at < 0 ? look.at + Math.min(by, 0) : at + by;
    if (page.rows?.[to]) open(page.rows[to].item_id);
    else if (page.page + by >= 0 && page.page + by < page.n_pages) { look.turning = by; ctx.turn(by); }
  }
  // Open the first of the rows that come.
  const openFirst = () => { look.turning = 1; };
  function close() {
    const id = get("item").item_id;
    if (!id) return false;
    ctx.send({ do: "select", item_id: "" });
    const row = [...root.querySelectorAll("tr[data-id]")].find((one) => one.dataset.id === id) || root.querySelector('tr[data-id][tabindex="0"]');
    row?.focus({ preventScroll: true });
    requestAnimationFrame(() => row?.scrollIntoView({ block: "nearest" }));
    return true;
  }
  function fold(one) {
    look.unfolded[one.getAttribute("aria-expanded") === "true" ? "delete" : "add"](one.dataset.name);
    const all = look.unfolded.has(one.dataset.name);
    one.previousElementSibling.classList.toggle("ekw-all", all);
    one.setAttribute("aria-expanded", all);
    measureFolds();
  }
  return { changes, drawRows, drawItem, drawNotices, toggleMarkdown, mark, reveal, open, openFirst, step, close, fold, judgeArticles, rest, inputs, measureFolds, end: () => widths.disconnect() };
}
