// A finished run: scores with coverage and spread, its judges, its samples and one of them in full; and the module that
// puts this and the wizard together. Texts of models and data sets go through esc().
const RUN_SKELETON = `
<div class="ekw-alert" role="alert"></div>
<div class="ekw-run-setup">
  <section class="ekw-form" aria-label="The run to start"></section>
  <section class="ekw-panel ekw-plan-box" data-stay aria-label="Plan and start"></section>
  <details class="ekw-box" data-box="export"><summary>Config and command</summary><div class="ekw-export">
    <label>Command<textarea rows="3" readonly data-export="command"></textarea></label><div class="ekw-line"><button data-do="copy" data-of="command">Copy command</button></div>
    <label>Scoring config, YAML<textarea rows="6" readonly data-export="yaml"></textarea></label><label>Scoring config, JSON<textarea rows="6" readonly data-export="json"></textarea></label>
    <div class="ekw-line"><button data-do="copy" data-of="yaml">Copy YAML</button><button data-do="copy" data-of="json">Copy JSON</button></div></div></details>
  <details class="ekw-box" data-box="runs"><summary></summary><div class="ekw-runs" data-stay></div></details>
  <section class="ekw-progress" aria-label="Progress"></section>
</div>
<section class="ekw-run-view" data-keep aria-label="Run"></section>
<section class="ekw-samples" aria-label="Samples"><div class="ekw-tools" role="toolbar" aria-label="Which samples"></div>
  <div class="ekw-scroll"></div><div class="ekw-foot"></div></section>
<div class="ekw-item" role="region" aria-label="Sample" tabindex="-1"></div>`;
const ORDER_NAMES = { review: "Needs review first", file: "As in the file" };

function runPart(ctx) {
  const { find, put, get } = ctx;
  const cells = (row, names) => names.map((name, at) => (at ? `<td>${esc(row[name] ?? "")}</td>` : `<th scope="row">${esc(row[name] ?? "")}</th>`)).join("");
  const table = (title, names, rows, open) => `<details class="ekw-box" ${open ? "open" : ""}><summary>${esc(title)}</summary><div class="ekw-scroll" tabindex="0" role="region" aria-label="${esc(title)}"><table><thead><tr>${names.map((name) => `<th scope="col">${esc(name)}</th>`).join("")}</tr></thead><tbody>${rows.map((row) => `<tr>${cells(row, names)}</tr>`).join("")}</tbody></table></div></details>`;
  function drawRun() {
    const run = get("run");
    if (!run.id) return put(".ekw-run-view", "");
    const error = run.error ? `<p class="ekw-run-error" role="alert">✗ ${esc(run.error)}</p>` : "";
    const notes = run.notes.map((note) => `<p class="ekw-note">${esc(note)}</p>`).join("");
    const open = ["scores", "judges"];
    put(".ekw-run-view", `<h3>${esc(run.title)}</h3>${error}${notes}
      ${run.tables.map((one) => table(one.title[0].toUpperCase() + one.title.slice(1), one.columns, one.rows, open.includes(one.title))).join("")}
      <details class="ekw-box" open><summary>Facts, versions, folder</summary><dl class="ekw-inputs">${run.facts.map(([name, value]) => `<dt>${esc(name)}</dt><dd>${esc(value)}</dd>`).join("")}</dl></details>`);
  }
  // a column that starts with the name of an earlier one shows only its own part, to leave room for the text
  const short = (names, at) => {
    const lead = names.slice(0, at).reverse().find((name) => names[at].startsWith(`${name}_`));
    return lead ? names[at].slice(lead.length + 1) : names[at];
  };
  function drawSamples() {
    const page = get("page"), query = page.query || {};
    if (!page.tasks?.length) return ["tools", "foot"].forEach((name) => put(`.ekw-samples .ekw-${name}`, "")) || put(".ekw-samples .ekw-scroll", page.problem ? `<p class="ekw-empty">${esc(page.problem)}</p>` : "");
    const active = ctx.focused() === find("[data-search]");
    const tabs = page.tasks.map((name) => `<button data-do="task" data-key="task ${esc(name)}" data-name="${esc(name)}" aria-pressed="${name === query.task}">${esc(name)}</button>`).join("");
    if (!active) put(".ekw-samples .ekw-tools", `${tabs}<label class="ekw-short">Order <select data-order data-key="order">${options(Object.keys(ORDER_NAMES), query.order, (name) => ORDER_NAMES[name])}</select></label>
      <input type="search" data-search data-key="search" aria-label="Search samples" placeholder="Search" value="${esc(query.search)}">`);
    const shown = get("sample"), rows = page.rows || [], at = rows.some((row) => row.number === shown.number) ? shown.number : rows[0]?.number;
    const body = rows.map((row) => `<tr data-do="select" data-key="row ${+row.number}" data-number="${+row.number}" tabindex="${row.number === at ? 0 : -1}" aria-selected="${row.number === shown.number}"><th scope="row" title="${esc(row.id)}">${esc(row.id)}</th>${row.figures.map((one) => `<td class="ekw-number">${one === "NA" ? `<span class="ekw-worse">NA</span>` : esc(one)}</td>`).join("")}<td class="ekw-text">${row.error ? `<span class="ekw-worse">✗ ${esc(row.error)}</span> ` : ""}${esc(row.text)}</td></tr>`).join("");
    put(".ekw-samples .ekw-scroll", `<table role="grid" aria-label="Samples" aria-rowcount="${+page.n}"><thead><tr><th scope="col">Sample</th>${page.columns.map((name, at) => `<th scope="col" class="ekw-number" title="${esc(name)}">${esc(short(page.columns, at))}</th>`).join("")}<th scope="col">Question → answer</th></tr></thead><tbody>${body || `<tr><td colspan="${page.columns.length + 2}" class="ekw-empty">No sample matches. Clear the search.</td></tr>`}</tbody></table>`);
    put(".ekw-samples .ekw-foot", `<span role="status">${+page.n} of ${counted(page.n_all, "sample")}</span><span class="ekw-push"></span>${ctx.pager(page)}`);
  }
  function drawSample() {
    const one = get("sample");
    if (one.number === undefined) return put(".ekw-item", get("page").tasks?.length ? '<p class="ekw-empty">Select a sample to see its question, answer, and each judge\'s explanations. Arrow keys move between samples, Enter opens one, Escape returns to the table.</p>' : "");
    const pairs = (list) => list.map(([name, text]) => `<dt>${esc(name)}</dt><dd>${esc(text)}</dd>`).join("");
    const judges = one.judges.map((judge) => `<article><h4>${esc(judge.judge)} <small>${esc(judge.criterion)}: ${judge.score === null ? "unscored" : `mean ${esc(judge.score)}`}, ${esc(judge.scored)} ${judge.samples.length === 1 ? "sample" : "samples"} scored</small></h4><ol>${judge.samples
      .map((reply) => `<li><b>${esc(reply.label || "no label")}</b> ${reply.error ? `<span class="ekw-worse">✗ ${esc(reply.error.replaceAll("_", " "))}</span> ` : ""}${esc(reply.explanation)}</li>`).join("")}</ol></article>`).join("");
    put(".ekw-item", `<h3>${esc(one.id)} <small>${esc(one.task)}</small></h3>${one.inputs.length ? `<dl class="ekw-inputs">${pairs(one.inputs)}</dl>` : ""}
      ${one.figures.length ? `<dl class="ekw-figures">${one.figures.map(([name, value]) => `<div><dt>${esc(name)}</dt><dd>${esc(value)}</dd></div>`).join("")}</dl>` : ""}
      ${judges ? `<div class="ekw-judges">${judges}</div>` : ""}${one.texts.length ? `<dl class="ekw-inputs">${pairs(one.texts)}</dl>` : ""}`);
    markRow(ctx, "number", one.number);
  }
  return { drawRun, drawSamples, drawSample };
}

function render({ model, el }) {
  const ctx = createWidget(model, el, "ekw ekw-runs-root", RUN_SKELETON), { root, get, send, ask, drawAlert } = ctx;
  const wizard = wizardPart(ctx), run = runPart(ctx);
  root.classList.toggle("ekw-only-run", !get("form").scoring_mode);

  const choose = (number) => send({ do: "select", task: get("page").query.task, number: Number(number) });
  const rows = rowsOf(ctx, "number", (number) => { choose(number); ctx.find(".ekw-item").focus(); });
  const ACTIONS = {
    ...wizard.actions,
    task: (one) => ask({ task: one.dataset.name, search: "" }),
    select: (one) => { one.focus(); choose(one.dataset.number); },
  };
  listen(ctx, ACTIONS, ({ target }) => target.dataset.place && (wizard.typed(target), true), { order: ({ value }) => ask({ order: value }) });
  root.addEventListener("keydown", rows);
  const draws = {
    form: [wizard.drawForm], check: [wizard.drawCheck], runs: [wizard.drawRuns], progress: [wizard.drawProgress], alert: [drawAlert],
    run: [run.drawRun, wizard.drawRuns], page: [run.drawSamples, run.drawSample], sample: [run.drawSample],
  };
  return drawOnChange(ctx, model, draws);
}
export default { render };
