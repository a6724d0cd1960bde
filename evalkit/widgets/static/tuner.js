// The tuner's view. It draws what the model's traits hold and sends back what a person does; every figure comes from
// Python, and every text of a model or data set goes through esc().
const esc = (text) =>
  String(text ?? "").replace(/[&<>"']/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" })[sign]);
const KINDS = {
  same: "agree", near: "other level", "false pass": "✗ false pass", "false fail": "✗ false fail", differs: "✗ differs", none: "no label",
};
const COLUMNS = [
  ["item", "Item"], ["people", "People"], ["jury", "Jury"], [null, "Judges"], ["split", "Split"], ["change", "Change"], [null, "Text"],
];
const SKELETON = `
<div class="ekw-alert" role="alert"></div>
<section class="ekw-top" aria-label="Figures"></section>
<div class="ekw-main">
  <section class="ekw-left" aria-label="Rubric and jury">
    <div class="ekw-run"></div>
    <div class="ekw-editor"></div>
    <details class="ekw-box" data-box="jury"><summary></summary><div class="ekw-jury"></div></details>
    <details class="ekw-box" data-box="versions"><summary></summary><div class="ekw-versions"></div></details>
  </section>
  <section class="ekw-right" aria-label="Items">
    <div class="ekw-list"><div class="ekw-matrix"></div><div class="ekw-rows">
      <div class="ekw-tools" role="toolbar" aria-label="Which items"></div>
      <div class="ekw-scroll"></div><div class="ekw-foot"></div></div></div>
    <div class="ekw-item" role="region" aria-label="Item" tabindex="-1"></div>
  </section>
</div>`;

function render({ model, el }) {
  const root = document.createElement("div");
  root.className = "ekw";
  root.setAttribute("data-lm-suppress-shortcuts", "true"); // JupyterLab's shortcuts would take letters and arrows
  root.innerHTML = SKELETON;
  el.appendChild(root);
  const find = (selector) => root.querySelector(selector);
  const get = (name) => model.get(name) || {};
  const send = (message) => model.send(message);
  let drawn = -1, yaml = false, typing = null, choosing = null;

  // Redraw a region; what had the focus has it afterwards.
  function put(selector, html) {
    const region = find(selector), held = document.activeElement;
    const key = region.contains(held) ? held.dataset.key : null;
    const range = key && "selectionStart" in held ? [held.selectionStart, held.selectionEnd] : null;
    region.innerHTML = html;
    if (!key) return;
    const again = region.querySelector(`[data-key="${CSS.escape(key)}"]`);
    if (!again) return;
    again.focus({ preventScroll: true });
    if (range && range[0] !== null) again.setSelectionRange(...range);
  }

  // -- figures
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
    const strays = board.strays ? `<div class="ekw-held">${board.strays} labels in the file are about other texts and are left out.</div>` : "";
    put(".ekw-top", tabs + (tiles ? `<dl class="ekw-tiles">${tiles}</dl>` : "") + split + strays);
  }

  // -- the rubric
  function level(code, text, at) {
    return `<div class="ekw-level"><input class="ekw-code" value="${esc(code)}" aria-label="Code of level ${at + 1}" data-part="code">
      <textarea rows="2" data-part="text" aria-label="What level ${esc(code)} means">${esc(text)}</textarea>
      <button class="ekw-quiet" data-do="drop" aria-label="Remove level ${esc(code)}" title="Remove this level">×</button></div>`;
  }
  function fields(draft) {
    const form = draft.form;
    const criteria = form.criteria
      .map((one, at) => `<details class="ekw-criterion" data-at="${at}" ${at && form.criteria.length > 1 ? "" : "open"}><summary>${esc(one.name)} <small>${esc(one.level)}</small></summary>
        <label>Question<textarea rows="3" data-part="description">${esc(one.description)}</textarea></label>
        <div class="ekw-levels" role="group" aria-label="Scale of ${esc(one.name)}">${one.scale.map(([code, text], n) => level(code, text, n)).join("")}</div>
        <div class="ekw-line"><label class="ekw-short">${one.rule === "pass_if" ? "Passes if (codes)" : "Passes at"} <input data-part="passes" value="${esc(one.passes)}"></label>
        <button data-do="add">Add a level</button></div></details>`)
      .join("");
    return `<label>What is judged<textarea rows="2" data-part="whole">${esc(form.description)}</textarea></label>${criteria}
      <label class="ekw-short">Template <input data-part="template" list="ekw-templates" value="${esc(form.template)}"></label>
      <datalist id="ekw-templates">${draft.templates.map((name) => `<option value="${esc(name)}">`).join("")}</datalist>`;
  }
  function drawDraft() {
    const draft = get("draft");
    if (!draft.form) return;
    if (drawn !== draft.revision || !find(".ekw-fields")) {
      drawn = draft.revision;
      const body = yaml ? `<textarea class="ekw-yaml" rows="22" spellcheck="false" aria-label="Rubric as YAML">${esc(draft.yaml)}</textarea>` : fields(draft);
      find(".ekw-editor").innerHTML = `<div class="ekw-head"><h3>${esc(draft.id)} <small class="ekw-label"></small></h3>
        <button data-do="toggle" aria-pressed="${yaml}">YAML</button></div><div class="ekw-fields">${body}</div><div class="ekw-problem" role="alert"></div><div class="ekw-warnings"></div>`;
    }
    find(".ekw-label").textContent = draft.edited ? `${draft.label}, edited` : draft.label;
    find(".ekw-problem").textContent = draft.problem;
    root.classList.toggle("ekw-faulty", Boolean(draft.problem));
    const warnings = draft.warnings || [];
    find(".ekw-warnings").innerHTML = warnings.length
      ? `<details><summary>${warnings.length} ${warnings.length === 1 ? "remark" : "remarks"} on the wording</summary><ul>${warnings.map((one) => `<li>${esc(one)}</li>`).join("")}</ul></details>` : "";
    drawRun();
  }
  function collect() {
    const part = (from, name) => from.querySelector(`[data-part="${name}"]`).value;
    const box = find(".ekw-fields"), had = get("draft").form;
    return {
      description: part(box, "whole"), template: part(box, "template"),
      criteria: [...box.querySelectorAll(".ekw-criterion")].map((one, at) => ({
        description: part(one, "description"), rule: had.criteria[at].rule, passes: part(one, "passes"),
        scale: [...one.querySelectorAll(".ekw-level")].map((row) => [part(row, "code"), part(row, "text")]),
      })),
    };
  }
  function flush() {
    if (typing === null) return;
    clearTimeout(typing);
    typing = null;
    if (yaml) send({ do: "yaml", text: find(".ekw-yaml").value });
    else send({ do: "form", form: collect() });
  }
  function typed() {
    clearTimeout(typing);
    typing = setTimeout(flush, 250);
  }

  // -- run, jury, versions
  function drawRun() {
    const status = get("status"), draft = get("draft"), running = Boolean(status.running);
    const bar = running
      ? `<progress aria-label="Replies" ${status.total ? `value="${+status.done}" max="${+status.total}"` : ""}></progress><small class="ekw-count">${esc(status.text)}</small>` : "";
    put(".ekw-run", `<div class="ekw-line"><button class="ekw-primary" data-do="run" data-key="run" ${running || draft.problem ? "disabled" : ""}>▶ Run</button>
      <button data-do="stop" data-key="stop" ${running ? "" : "disabled"}>■ Stop</button>
      <button data-do="save" data-key="save" ${running || draft.problem ? "disabled" : ""} title="Write the rubric as its next version">Save version</button></div>${bar}
      <small class="ekw-plan">${running ? "" : esc(status.plan || "")}</small>
      <div role="status" class="ekw-said">${running ? "" : esc(status.text)}</div>`);
  }
  function drawJury() {
    const jury = get("jury"), judges = jury.judges || [];
    const on = judges.filter((judge) => judge.on).length;
    find('[data-box="jury"] > summary').textContent = `Jury: ${on} ${on === 1 ? "judge" : "judges"} × ${jury.samples} samples, ${jury.aggregate}`;
    put(".ekw-jury", `<table><thead><tr><th scope="col">Judge</th><th scope="col">Weight</th></tr></thead><tbody>${judges
      .map((judge) => `<tr><td><label class="ekw-check"><input type="checkbox" data-jury="on" data-key="on ${esc(judge.name)}" data-name="${esc(judge.name)}" ${judge.on ? "checked" : ""}>${esc(judge.name)}</label></td>
        <td><input type="number" min="0" step="0.5" data-jury="weight" data-key="weight ${esc(judge.name)}" data-name="${esc(judge.name)}" value="${+judge.weight}" aria-label="Weight of ${esc(judge.name)}"></td></tr>`)
      .join("")}</tbody></table>
      <div class="ekw-line"><label class="ekw-short">Samples <input type="number" min="1" max="25" data-jury="samples" data-key="samples" value="${+jury.samples}"></label>
      <label class="ekw-short">Combine <select data-jury="aggregate" data-key="aggregate">${(jury.aggregates || []).map((name) => `<option ${name === jury.aggregate ? "selected" : ""}>${esc(name)}</option>`).join("")}</select></label></div>
      <label class="ekw-short">Spend at most US$ <input type="number" min="0" step="0.01" data-jury="budget" data-key="budget" value="${esc(jury.budget_usd ?? "")}"></label>
      <div class="ekw-line"><input data-new placeholder="openai:gpt-4o-mini" data-key="new" aria-label="Another judge, provider:model"><button data-do="judge" data-key="add judge">Add judge</button></div>`);
  }
  function drawVersions() {
    const board = get("board"), versions = board.versions || [];
    find('[data-box="versions"] > summary').textContent = `Versions: ${versions.length}`;
    const options = (chosen) => versions.map((one) => `<option value="${esc(one.key)}" ${one.key === chosen ? "selected" : ""}>${esc(`${one.label} · ${one.jury} · ${one.at}`)}</option>`).join("");
    put(".ekw-versions", versions.length
      ? `<label>Shown<select data-version="current" data-key="current">${options(board.current)}</select></label>
        <label>Compared with<select data-version="against" data-key="against"><option value="">nothing</option>${options(board.against)}</select></label>
        <div class="ekw-line"><button data-do="take" data-key="take">Edit the shown one</button><button data-do="code" data-key="code">Copy as code</button></div><pre class="ekw-codetext" hidden tabindex="0"></pre>`
      : "<p class='ekw-empty'>Each run is kept here.</p>");
  }

  // -- items
  function ask(changes) {
    send({ do: "query", query: { ...get("page").query, page: 0, ...changes } });
  }
  function drawMatrix() {
    const cells = get("board").cells || [], chosen = get("page").query?.cell;
    if (!cells.length) return put(".ekw-matrix", "");
    const humans = [...new Set(cells.map((cell) => cell.human))];
    const juries = [...new Set(cells.map((cell) => cell.jury))];
    const of = (human, jury) => cells.find((cell) => cell.human === human && cell.jury === jury) || { human, jury, n: 0, kind: "none" };
    const button = (cell, key) => {
      const on = chosen && chosen[0] === cell.human && chosen[1] === cell.jury;
      return `<td><button class="ekw-cell ekw-${esc(cell.kind.replace(" ", "-"))}" data-do="cell" data-key="cell ${key}" data-cell="${key}" aria-pressed="${Boolean(on)}" ${cell.n ? "" : "disabled"}
        aria-label="people ${esc(cell.human)}, jury ${esc(cell.jury ?? "no label")}: ${+cell.n} labels, ${esc(KINDS[cell.kind])}"><b>${+cell.n}</b><small>${esc(KINDS[cell.kind])}</small></button></td>`;
    };
    put(".ekw-matrix", `<table><caption>People ↓ &nbsp; Jury →</caption><thead><tr><td></td>${juries.map((jury) => `<th scope="col">${esc(jury ?? "none")}</th>`).join("")}</tr></thead><tbody>${humans
      .map((human) => `<tr><th scope="row">${esc(human)}</th>${juries.map((jury) => button(of(human, jury), cells.indexOf(of(human, jury)))).join("")}</tr>`).join("")}</tbody></table>
      <small>each annotator's label counts once; choose a cell to see its items</small>`);
  }
  const verdict = (passed) => (passed === true ? "pass" : passed === false ? "fail" : "none");
  function chip(label, passed, people, who) {
    const off = people !== null && passed !== null && passed !== people;
    const said = label === null ? "no label" : label;
    return `<span class="ekw-chip ekw-${verdict(passed)}${off ? " ekw-off" : ""}" title="${esc(who)}: ${esc(said)}, ${verdict(passed) === "none" ? "no verdict" : verdict(passed)}"><span aria-hidden="true">${esc(label === null ? "–" : label)}</span><span class="ekw-sr">${esc(who)} ${esc(said)} ${verdict(passed)}${off ? ", against people" : ""}</span></span>`;
  }
  const SIGN = { fixed: "▲ fixed", broke: "▼ broke", "now passes": "△ now passes", "now fails": "▽ now fails", changed: "◇ changed" };
  function drawRows() {
    const page = get("page"), query = page.query || {}, item = get("item").item_id;
    if (!page.judged) {
      ["tools", "foot"].forEach((name) => put(`.ekw-${name}`, ""));
      put(".ekw-scroll", `<div class="ekw-first"><h3>${+page.n_items} items, nothing judged yet</h3><ol><li>Look at the plan below Run: what it asks, what it costs.</li>
        <li>Run. What was judged once is not asked again.</li><li>Look at the items that need eyes, label them, edit the rubric, run again: you see what the edit fixed and broke, and how much of it is chance.</li></ol></div>`);
      return;
    }
    const active = document.activeElement === find("[data-search]");
    const known = get("board").browse ? ["all", "split", "unscored"] : null; // the others are about people and changes
    const tools = page.filters.filter(([name]) => !known || known.includes(name)).map(([name, title, n]) => `<button data-do="filter" data-key="filter ${esc(name)}" data-name="${esc(name)}" aria-pressed="${name === query.filter}" ${n || name === query.filter || name === "all" ? "" : "disabled"}>${esc(title)} <i>${+n}</i></button>`).join("");
    if (!active) put(".ekw-tools", `${tools}<input type="search" data-search data-key="search" aria-label="Search items" placeholder="Search" value="${esc(query.search)}">`);
    const head = COLUMNS.map(([key, title]) => key
      ? `<th scope="col" aria-sort="${query.sort === key ? (query.down ? "descending" : "ascending") : "none"}"><button data-do="sort" data-key="sort ${key}" data-name="${key}">${title}${query.sort === key ? (query.down ? " ▼" : " ▲") : ""}</button></th>`
      : `<th scope="col">${title}</th>`).join("");
    const focus = page.rows.some((row) => row.item_id === item) ? item : page.rows[0]?.item_id;
    const body = page.rows.map((row) => `<tr data-do="select" data-key="row ${esc(row.item_id)}" data-id="${esc(row.item_id)}" tabindex="${row.item_id === focus ? 0 : -1}" aria-selected="${row.item_id === item}">
        <th scope="row">${esc(row.item_id)}</th>
        <td>${row.held ? '<small title="its labels stay unseen while you tune">held out</small>' : Object.entries(row.people).map(([who, label]) => `<span class="ekw-human" title="${esc(who)}">${esc(label)}</span>`).join(" ") || "<small>–</small>"}</td>
        <td>${chip(row.jury, row.passed, row.people_passed, "jury")} ${row.wrong === true ? '<b class="ekw-worse" title="not where the majority of people is">✗</b>' : row.wrong === false ? '<span class="ekw-better" title="where the majority of people is">✓</span>' : ""}${row.status === "ok" ? "" : ` <small>${esc(row.status)}</small>`}</td>
        <td>${row.votes.map(([who, label, passed]) => chip(label, passed, row.people_passed, who)).join("")}</td>
        <td>${row.split ? row.split.toFixed(2) : row.split === 0 ? "–" : ""}</td>
        <td class="ekw-${row.change === "fixed" ? "better" : row.change === "broke" ? "worse" : "as"}">${esc(SIGN[row.change] || "")}</td>
        <td class="ekw-text">${esc(row.text)}</td></tr>`).join("");
    const scroll = find(".ekw-scroll").scrollTop;
    put(".ekw-scroll", `<table role="grid" aria-label="Judged items" aria-rowcount="${+page.n}"><thead><tr>${head}</tr></thead><tbody>${body || `<tr><td colspan="7" class="ekw-empty">No item is like that. Clear the filter or the search.</td></tr>`}</tbody></table>`);
    find(".ekw-scroll").scrollTop = scroll;
    const turn = (step, name, sign, off) => `<button data-do="turn" data-key="turn ${step}" data-step="${step}" aria-label="${name} page" ${off ? "disabled" : ""}>${sign}</button>`;
    const cell = query.cell ? `<button data-do="uncell" data-key="uncell">× people ${esc(query.cell[0])}, jury ${esc(query.cell[1] ?? "none")}</button>` : "";
    put(".ekw-foot", `<span role="status">${+page.n} of ${+page.n_items} items</span>${cell}${query.sort === "eyes" ? "<small>first what needs eyes: wrong, broke, unscored, split</small>" : '<button data-do="sort" data-name="eyes" data-key="sort eyes">First what needs eyes</button>'}
      <span class="ekw-push"></span>${page.n_pages > 1 ? `${turn(-1, "Previous", "‹", page.page === 0)} ${page.page + 1}/${page.n_pages} ${turn(1, "Next", "›", page.page + 1 >= page.n_pages)}` : ""}`);
  }

  // -- one item
  function drawItem() {
    const item = get("item"), board = get("board");
    if (!item.item_id) return put(".ekw-item", get("page").judged ? '<p class="ekw-empty">Choose an item: its prompt, each judge\'s replies and reasons, the labels. Arrow keys move, Enter goes in, Escape comes back.</p>' : "");
    const mine = item.labels[board.annotator];
    const labels = Object.entries(item.labels).map(([who, label]) => `<span class="ekw-human">${esc(who)}: ${esc(label)}</span>`).join(" ");
    const codes = item.codes.map((code) => `<button data-do="label" data-key="label ${esc(code)}" data-label="${esc(code)}" aria-pressed="${mine === code}">${esc(code)}</button>`).join("");
    const samples = (judge) => judge.samples.map((one, at) => `<li><b>${esc(one.label ?? "no label")}</b>${one.order ? ` <small>${esc(one.order)}</small>` : ""} ${
        one.error ? `<span class="ekw-worse">✗ ${esc(one.error.replace("_", " "))}</span> ` : ""}${esc(one.explanation ?? "")}${
        one.reply ? `<details><summary aria-label="Raw reply ${at + 1} of ${esc(judge.judge)}">raw reply</summary><pre>${esc(one.reply)}</pre></details>` : ""}</li>`).join("");
    put(".ekw-item", `<div class="ekw-head"><h3>${esc(item.item_id)} <small>${esc(item.criterion)}</small></h3>
      ${board.browse ? "" : `<div class="ekw-label-line" role="group" aria-label="Your label"><label class="ekw-short">Label as <input data-annotator data-key="annotator" value="${esc(board.annotator)}" aria-label="Annotator"></label> ${codes}
      <button class="ekw-quiet" data-do="unlabel" data-key="unlabel" ${mine === undefined ? "disabled" : ""}>Take back</button></div>`}</div>
      ${board.browse ? "" : `<p class="ekw-labels">${item.held ? "Held out: other people's labels stay unseen while you tune. " : ""}${labels || "No label yet."}</p>`}
      <dl class="ekw-inputs">${item.inputs.map(([name, text]) => `<dt>${esc(name)}</dt><dd>${esc(text)}</dd>`).join("")}</dl>
      <div class="ekw-judges">${item.judges.map((judge) => `<article><h4>${esc(judge.judge)} <span class="ekw-chip ekw-${verdict(judge.passed)}">${esc(judge.label ?? "–")}</span> <small>${judge.score === null ? esc(judge.reason ?? "unscored") : `mean ${esc(judge.score)}`}${judge.passed === null ? "" : `, ${verdict(judge.passed)}`}</small></h4><ol>${samples(judge)}</ol></article>`).join("")}</div>
      ${item.prompt ? `<details class="ekw-prompt"><summary>What judges were asked</summary><pre>${esc(item.prompt)}</pre></details>` : ""}`);
  }
  function drawAlert() {
    const text = model.get("alert");
    put(".ekw-alert", text ? `<div>${text.split("\n").map((line) => `<p>${esc(line)}</p>`).join("")}</div><button data-do="dismiss" aria-label="Dismiss the message">×</button>` : "");
  }
  function drawCode() {
    const text = model.get("code"), box = find(".ekw-codetext");
    if (!text || !box) return;
    box.hidden = false;
    box.textContent = text;
    navigator.clipboard?.writeText(text).catch(() => {}); // refused without a secure page: it can be copied from the box
  }

  // -- what a person does
  function jury() {
    const active = {};
    root.querySelectorAll('[data-jury="on"]').forEach((box) => {
      if (box.checked) active[box.dataset.name] = Number([...root.querySelectorAll('[data-jury="weight"]')].find((one) => one.dataset.name === box.dataset.name).value) || 0;
    });
    const value = (name) => find(`[data-jury="${name}"]`).value;
    send({ do: "jury", active, samples: Number(value("samples")) || 0, aggregate: value("aggregate"), budget_usd: value("budget") });
  }
  const ACTIONS = {
    run: () => { flush(); send({ do: "run" }); },
    stop: () => send({ do: "stop" }),
    save: () => { flush(); send({ do: "save" }); },
    held_out: () => send({ do: "held_out" }),
    dismiss: () => send({ do: "dismiss" }),
    criterion: (one) => send({ do: "criterion", name: one.dataset.name }),
    toggle: () => { if (get("draft").problem) return; flush(); yaml = !yaml; drawn = -1; setTimeout(drawDraft, 0); },
    add: (one) => {
      const levels = one.closest(".ekw-criterion").querySelector(".ekw-levels"), n = levels.children.length;
      levels.insertAdjacentHTML("beforeend", level(String(n), "", n));
      levels.lastElementChild.querySelector("textarea").focus();
      typed();
    },
    drop: (one) => { one.closest(".ekw-level").remove(); typed(); },
    judge: () => { const box = find("[data-new]"); if (box.value.trim()) send({ do: "judge", judge: box.value.trim() }); },
    take: () => send({ do: "take", key: get("board").current }),
    code: () => send({ do: "code" }),
    cell: (one) => {
      const cell = get("board").cells[one.dataset.cell], same = one.getAttribute("aria-pressed") === "true";
      ask({ cell: same ? null : [cell.human, cell.jury] });
    },
    uncell: () => ask({ cell: null }),
    filter: (one) => ask({ filter: one.dataset.name }),
    sort: (one) => { const query = get("page").query, name = one.dataset.name; ask({ sort: name, down: query.sort === name ? !query.down : name !== "item" }); },
    turn: (one) => ask({ page: get("page").page + Number(one.dataset.step) }),
    select: (one) => { one.focus(); choose(one.dataset.id); },
    label: (one) => send({ do: "label", item_id: get("item").item_id, label: one.dataset.label }),
    unlabel: () => send({ do: "label", item_id: get("item").item_id, label: null }),
  };
  function choose(id) {
    clearTimeout(choosing);
    root.querySelectorAll("tr[data-id]").forEach((row) => {
      row.setAttribute("aria-selected", row.dataset.id === id);
      row.tabIndex = row.dataset.id === id ? 0 : -1;
    });
    choosing = setTimeout(() => send({ do: "select", item_id: id }), 60); // arrow keys held down ask once
  }
  root.addEventListener("click", (event) => {
    const one = event.target.closest("[data-do]");
    if (one && root.contains(one) && !one.disabled) ACTIONS[one.dataset.do]?.(one);
  });
  let searching = null;
  root.addEventListener("input", (event) => {
    if (event.target.closest(".ekw-fields")) typed();
    else if (event.target.matches("[data-search]")) {
      clearTimeout(searching);
      searching = setTimeout(() => ask({ search: event.target.value }), 200);
    }
  });
  root.addEventListener("change", (event) => {
    const one = event.target;
    if (one.dataset.jury) jury();
    else if (one.dataset.version) send({ do: "versions", current: find('[data-version="current"]').value, against: find('[data-version="against"]').value });
    else if (one.matches("[data-annotator]")) send({ do: "annotator", name: one.value });
  });
  root.addEventListener("keydown", (event) => {
    event.stopPropagation();
    const row = event.target.closest("tr[data-id]");
    if (row && row === event.target) {
      const rows = [...root.querySelectorAll("tr[data-id]")], at = rows.indexOf(row);
      const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1 }[event.key];
      if (to !== undefined) {
        event.preventDefault();
        if (rows[to]) { rows[to].focus(); choose(rows[to].dataset.id); }
      } else if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        choose(row.dataset.id);
        find(".ekw-item").focus();
      }
    } else if (event.key === "Escape" && event.target.closest(".ekw-item")) {
      root.querySelector('tr[data-id][tabindex="0"]')?.focus();
    } else if (event.key === "Enter" && event.target.matches("[data-new]")) ACTIONS.judge();
  });

  const draws = {
    draft: [drawDraft], jury: [drawJury], status: [drawRun], alert: [drawAlert], code: [drawCode], item: [drawItem, mark],
    board: [drawTop, drawMatrix, drawVersions, drawItem], page: [drawRows, drawMatrix, drawItem],
  };
  function mark() { // the row of the item that is shown
    const id = get("item").item_id;
    root.querySelectorAll("tr[data-id]").forEach((row) => row.setAttribute("aria-selected", row.dataset.id === id));
  }
  const stops = Object.entries(draws).map(([name, all]) => {
    const draw = () => all.forEach((one) => one());
    model.on(`change:${name}`, draw);
    draw();
    return () => model.off(`change:${name}`, draw);
  });
  return () => stops.forEach((stop) => stop());
}
export default { render };
