// The table of items, and the selected item.
const COLUMNS = [ // key, title, and whether its title sorts
  ["item", "Item", true], ["people", "People", true], ["jury", "Jury", true], ["judges", "Judges", false], ["split", "Disagreement", true], ["change", "Change", true],
  ["column", "", true], ["text", "Text", false],
];

const LONG = 2000; // of a longer text only these characters are open

const FILTERS = {
  all: "All", wrong: "Jury ≠ people", split: "Judges disagree", changed: "Changed", broke: "Broke", fixed: "Fixed",
  tied: "Tied", unscored: "Not fully scored", unlabelled: "No label",
};

function itemsPart(ctx) {
  const { root, find, put, get } = ctx;
  const verdict = (passed) => (passed === true ? "pass" : passed === false ? "fail" : "none");
  // if the verdict differs from what the label implies, the chip shows the verdict too
  function chip(label, passed, people, who, beside) {
    const off = people !== null && passed !== null && passed !== people;
    const said = label === null ? "no label" : label;
    return `<span class="ekw-chip ekw-${verdict(passed)}${off ? " ekw-off" : ""}" title="${esc(who)}: ${esc(said)}, ${verdict(passed) === "none" ? "no verdict" : verdict(passed)}"><span aria-hidden="true">${esc(label === null ? "–" : label)}${beside ? ` <i>${esc(beside)}</i>` : ""}</span><span class="ekw-sr">${esc(who)} ${esc(said)} ${verdict(passed)}${off ? ", against people" : ""}</span></span>`;
  }
  // One column of the items, by which the table is filtered and sorted: any of its values, or one.
  function columnSelect(all, chosen) {
    const option = (value, text) => `<option value="${esc(JSON.stringify(value))}" ${JSON.stringify(value) === JSON.stringify(chosen) ? "selected" : ""}>${esc(text)}</option>`;
    const groups = Object.entries(all).map(([name, values]) => `<optgroup label="${esc(name)}">${option([name, null], `show ${name}`)}${values.map((value) => option([name, value], `${name}: ${value || "(none)"}`)).join("")}</optgroup>`);
    return groups.length ? `<select data-column data-key="column" aria-label="Column of the items">${option(null, "Column …")}${groups.join("")}</select>` : "";
  }
  root.addEventListener("change", ({ target }) => { if (target.matches("[data-column]")) ctx.ask({ column: JSON.parse(target.value) }); });
  const SIGN = { fixed: "▲ fixed", broke: "▼ broke", "now passes": "△ now passes", "now fails": "▽ now fails", changed: "◇ changed",
    "verdict appeared": "+ verdict appeared", "verdict lost": "− verdict lost", "label appeared": "+ label appeared", "label lost": "− label lost" };
  function drawRows() {
    const page = get("page"), query = page.query || {}, item = get("item").item_id;
    if (!page.judged) {
      ["tools", "foot"].forEach((name) => put(`.ekw-${name}`, ""));
      put(".ekw-scroll", `<div class="ekw-first"><h3>${counted(page.n_items, "item")}, nothing judged yet</h3><ol><li>Read the plan below Run: the number of calls and their cost.</li>
        <li>Run. Replies are cached: nothing is paid twice.</li><li>Look at the items that need review, label them, edit the rubric, run again: you see what the edit fixed and broke, and how much of that may be chance.</li></ol></div>`);
      return;
    }
    const active = document.activeElement === find("[data-search]");
    const tools = Object.entries(FILTERS).filter(([name]) => !page.filters || page.filters.includes(name)).map(([name, title]) => [name, title, page.counts[name]]).map(([name, title, n]) => `<button data-do="filter" data-key="filter ${esc(name)}" data-name="${esc(name)}" aria-pressed="${name === query.filter}" ${n || name === query.filter || name === "all" ? "" : "disabled"}>${esc(title)} <i>${+n}</i></button>`).join("");
    if (!active) put(".ekw-tools", `${tools}${columnSelect(page.item_columns, query.column)}<input type="search" data-search data-key="search" aria-label="Search items" placeholder="Search" value="${esc(query.search)}">`);
    const column = query.column?.[0], columns = COLUMNS.filter(([key]) => (key === "column" ? column : !page.columns || page.columns.includes(key)));
    // one column per judge, under its name without provider and owner if names differ without them
    const judges = [...new Set(page.rows.flatMap((row) => row.votes.map(([who]) => who)))], brief = judges.map((who) => who.split(/[:/]/).pop());
    const names = new Set(brief).size === judges.length ? brief : judges;
    const head = columns.map(([key, fixed, sorts]) => [key, fixed || esc(column), sorts]).map(([key, title, sorts]) => key === "judges"
      ? judges.map((who, at) => `<th scope="col" class="ekw-judge" style="min-width:${Math.min(13, names[at].length + 2)}ch" title="${esc(who)}">${esc(names[at])}</th>`).join("")
      : sorts
      ? `<th scope="col" aria-sort="${query.sort === key ? (query.down ? "descending" : "ascending") : "none"}"><button data-do="sort" data-key="sort ${key}" data-name="${key}">${title}${query.sort === key ? (query.down ? " ▼" : " ▲") : ""}</button></th>`
      : `<th scope="col">${title}</th>`).join("");
    const focus = page.rows.some((row) => row.item_id === item) ? item : page.rows[0]?.item_id;
    const cells = {
      item: (row) => `<th scope="row" title="${esc(row.item_id)}">${esc(row.item_id)}</th>`,
      people: (row) => `<td>${row.held ? '<small title="its labels stay hidden while you tune">held out</small>' : Object.entries(row.people).map(([who, label]) => `<span class="ekw-human" title="${esc(who)}">${esc(label)}</span>`).join(" ") || "<small>–</small>"}</td>`,
      jury: (row) => `<td>${chip(row.jury, row.passed, row.people_passed, "jury", row.conflicts[""])} ${row.wrong === true ? '<b class="ekw-worse" title="against the majority of people">✗</b>' : row.wrong === false ? '<span class="ekw-better" title="with the majority of people">✓</span>' : ""}${row.status === "ok" ? "" : ` <small>${esc(row.status)}</small>`}</td>`,
      judges: (row) => judges.map((name) => `<td>${row.votes.filter(([who]) => who === name).map(([who, label, passed]) => chip(label, passed, row.people_passed, who, row.conflicts[who])).join("")}</td>`).join(""),
      split: (row) => `<td>${row.apart ? row.apart.toFixed(2) : row.apart === 0 ? "–" : ""}</td>`,
      change: (row) => `<td class="ekw-${row.change === "fixed" ? "better" : row.change === "broke" ? "worse" : "as"}">${esc(SIGN[row.change] || "")}</td>`,
      column: (row) => `<td>${esc(row.item_columns[column])}</td>`,
      text: (row) => `<td class="ekw-text">${esc(row.text)}</td>`,
    };
    const body = page.rows.map((row) => `<tr data-do="select" data-key="row ${esc(row.item_id)}" data-id="${esc(row.item_id)}" tabindex="${row.item_id === focus ? 0 : -1}" aria-selected="${row.item_id === item}">
        ${columns.map(([key]) => cells[key](row)).join("")}</tr>`).join("");
    release();
    const at = [...root.querySelectorAll("tr[data-id]")].indexOf(document.activeElement);
    put(".ekw-scroll", `<table role="grid" aria-label="Judged items" aria-rowcount="${+page.n}"><thead><tr>${head}</tr></thead><tbody>${body || `<tr><td colspan="${columns.length + judges.length}" class="ekw-empty">No item matches. Clear the filter or the search.</td></tr>`}</tbody></table>`);
    place();
    const left = [...root.querySelectorAll("tr[data-id]")], lost = at >= 0 && !root.contains(document.activeElement);
    if (lost) (left[Math.min(at, left.length - 1)] || find("[data-search]")).click(); // a labelled row has left the filter: the next one is selected
    const cell = query.cell ? `<button data-do="uncell" data-key="uncell">× people ${esc(query.cell[0])}, jury ${esc([query.cell[1] ?? "none", query.cell[2]].filter(Boolean).join(" "))}</button>` : "";
    put(".ekw-foot", `<span role="status">${+page.n} of ${counted(page.n_items, "item")}</span>${cell}${query.sort === "review" ? `<small>items that need review first: ${page.filters ? "" : "wrong, broke, "}unscored, judges disagree</small>` : '<button data-do="sort" data-name="review" data-key="sort review">Needs review first</button>'}
      <span class="ekw-push"></span>${ctx.pager(page)}`);
  }

  // What a run left open: one quiet line each, with a filter that shows its items.
  function drawNotices() {
    const chosen = get("page").query?.filter, notices = ctx.get("notices");
    put(".ekw-notices", notices.map((one) => `<div class="ekw-notice"><span>${esc(one.text)}</span>${one.filter
      ? ` <button data-do="filter" data-key="notice" data-name="${esc(one.filter)}" aria-pressed="${chosen === one.filter}">Show ${one.n_items === 1 ? "this item" : `these ${+one.n_items} items`}</button>` : ""}${
      one.advice.length ? `<details><summary>what to do</summary><ul>${one.advice.map((line) => `<li>${esc(line)}</li>`).join("")}</ul></details>` : ""}</div>`).join(""));
  }
  // -- one item
  // The replies of each judge; with the names of two versions, side by side in both.
  function judgeArticles(judges, versions) {
    const samples = (judge) => `<ol>${judge.samples.map((one, at) => `<li><b>${esc(one.label ?? "no label")}</b>${one.order ? ` <small>${esc(one.order)}${one.order === "BA" ? ": answers shown in swapped order, so A in the explanation is answer_b, and B is answer_a" : ""}</small>` : ""} ${
        one.error ? `<span class="ekw-worse">✗ ${esc(one.error.replaceAll("_", " "))}</span> ` : ""}${esc(one.explanation ?? "")}${
        one.reply ? `<details><summary aria-label="Raw reply ${at + 1} of ${esc(judge.judge)}">raw reply</summary><pre>${esc(one.reply)}</pre></details>` : ""}</li>`).join("")}</ol>`;
    const vote = (judge) => `<span class="ekw-chip ekw-${verdict(judge.passed)}">${esc(judge.label ?? "–")}</span> <small>${judge.score === null ? esc(judge.reason ?? "unscored") : `mean ${esc(judge.score)}`}${judge.passed === null ? "" : `, ${verdict(judge.passed)}`}</small>`;
    const side = (name, judge) => `<section aria-label="${esc(name)}"><h5>${esc(name)} ${judge ? vote(judge) : "<small>not in the jury</small>"}</h5>${judge ? samples(judge) : ""}</section>`;
    return judges.map((judge) => (versions && !judge.same
      ? `<article class="ekw-both"><h4>${esc(judge.judge)}</h4><div>${side(versions[1], judge.before)}${side(versions[0], judge.gone ? null : judge)}</div></article>`
      : `<article><h4>${esc(judge.judge)} ${vote(judge)}</h4>${versions ? `<small>same replies in ${esc(versions[1])}</small>` : ""}${samples(judge)}</article>`)).join("");
  }
  let shown = null;
  function drawItem() {
    const item = get("item"), figures = get("figures");
    find(".ekw-item").toggleAttribute("data-keep", shown === item.item_id); // another item starts with all details closed
    shown = item.item_id;
    if (!item.item_id) return put(".ekw-item", get("page").judged ? `<p class="ekw-empty">Select an item to see its ${figures.browse ? "inputs and each judge's replies and explanations" : "prompt, each judge's replies and explanations, and its labels"}. Arrow keys move between items,${figures.browse ? "" : " the key of a level (0, 1 …) labels the selected item,"} Enter opens it, Escape returns to the table.</p>` : "");
    const mine = item.labels[figures.annotator];
    const labels = Object.entries(item.labels).map(([who, label]) => `<span class="ekw-human">${esc(who)}: ${esc(label)}</span>`).join(" ");
    const codes = item.codes.map((code, at) => `<button data-do="label" data-key="label ${esc(code)}" data-label="${esc(code)}" aria-pressed="${mine === code}">${item.keys[at] && item.keys[at] !== code ? `<kbd>${esc(item.keys[at])}</kbd> ` : ""}${esc(code)}</button>`).join("");
    put(".ekw-item", `<div class="ekw-head"><h3>${esc(item.item_id)} <small>${esc(item.criterion)}</small></h3>
      ${figures.browse ? "" : `<div class="ekw-label-line" role="group" aria-label="Your label"><label class="ekw-short">Label as <input data-annotator data-key="annotator" value="${esc(figures.annotator)}" aria-label="Annotator"></label> ${codes}
      <button class="ekw-quiet" data-do="unlabel" data-key="unlabel" ${offIf(mine === undefined)}>Take back</button></div>`}</div>
      ${figures.browse ? "" : `<p class="ekw-labels">${item.held ? "Held out: other people's labels stay hidden while you tune. " : ""}${labels || "No label yet."}</p>`}
      <dl class="ekw-inputs">${item.inputs.map(([name, text]) => `<dt>${esc(name)}</dt><dd>${text.length > LONG ? `${esc(text.slice(0, LONG))}<details><summary>… the other ${text.length - LONG} characters</summary>${esc(text.slice(LONG))}</details>` : esc(text)}</dd>`).join("")}</dl>
      <div class="ekw-judges">${judgeArticles([...item.judges, ...(item.gone || []).map((judge) => ({ ...judge, before: judge, gone: true }))], item.versions)}</div>
      ${item.prompt ? `<details class="ekw-prompt"><summary>The prompt of the judges</summary><pre>${esc(item.prompt)}</pre></details>` : ""}`);
  }
  // The item opens under its row, or under the table where that is on another page. `moveBefore` keeps the focus.
  function move(item, parent) {
    const held = document.activeElement;
    if (parent.moveBefore) parent.moveBefore(item, null);
    else parent.append(item);
    if (item.contains(held)) held.focus({ preventScroll: true });
  }
  function release() {
    const item = find(".ekw-item");
    if (item.closest("tr")) move(item, find(".ekw-right"));
    root.querySelector(".ekw-open")?.remove();
  }
  function place() {
    const item = find(".ekw-item"), row = [...root.querySelectorAll("tr[data-id]")].find((one) => one.dataset.id === get("item").item_id);
    if (row && row.nextElementSibling?.contains(item)) return;
    release();
    if (!row) return;
    row.insertAdjacentHTML("afterend", `<tr class="ekw-open"><td colspan="${row.cells.length}"></td></tr>`);
    move(item, row.nextElementSibling.firstChild);
  }
  // Scroll an item that was just chosen, and its row, into view once it is drawn.
  function reveal() {
    if (!ctx.wanted || get("item").item_id !== ctx.wanted) return;
    ctx.wanted = null;
    for (const one of [find(".ekw-item"), root.querySelector('tr[aria-selected="true"]')]) one?.scrollIntoView({ block: "nearest" });
  }
  function mark() { // select the row of the item shown
    const id = get("item").item_id;
    place();
    const rows = [...root.querySelectorAll("tr[data-id]")], there = rows.some((row) => row.dataset.id === id);
    rows.forEach((row) => {
      row.setAttribute("aria-selected", row.dataset.id === id);
      if (there) row.tabIndex = row.dataset.id === id ? 0 : -1;
    });
  }
  return { drawRows, drawItem, drawNotices, mark, reveal, judgeArticles };
}
