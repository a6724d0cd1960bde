// Run and Stop, the jury, versions, suggested edits.
const clock = (at) => (Number.isNaN(Date.parse(at)) ? at : new Date(at).toLocaleString([], { dateStyle: "short", timeStyle: "short" }));

function runsPart(ctx) {
  const { find, put, get } = ctx;
  let n = 0, sent = "", answer = "";
  const price = (text) => { const at = text.indexOf("US$"); return at > 0 ? `<span class="ekw-wide-only">${esc(text.slice(0, at))}</span>${esc(text.slice(at).split(", over")[0])}` : esc(text); };
  let isExpected = false, words = ""; // whether the next words answer a press of this view, which are then shown
  // What helps most beside a run: chance, labels of what changed, reading what changed, else the next label.
  function nextStep(running) {
    const { decision, to_label: open, measure } = get("figures"), changed = get("page").counts?.changed, cost = typeof get("price") === "string" ? get("price").split(";")[0] : "";
    if (!running && measure && decision?.action === "measure") return { action: "measure", isNeeded: true, text: `Measure chance${cost ? `: ${esc(cost.split(", ")[1])}` : ""}`, title: `Ask the same prompts again: ${cost}` };
    if (!running && decision?.action === "changed" && open) return { action: "label_changed", isNeeded: true, text: `Label ${+open} changed`, title: "Label the items whose verdict changed, blind" };
    if (!running && decision?.kind === "open" && (open === 0 || !decision.action) && changed) return { action: "read_changed", isNeeded: true, text: `Read ${+changed} changed`, title: "Read the items whose verdict changed" };
    return { action: "queue", isNeeded: !running && decision?.action === "queue", text: "Label next <kbd>L</kbd>", title: "Label items one after another, by keyboard" };
  }
  const expectWords = () => { isExpected = true; };
  function drawRun() {
    const status = get("status"), draft = get("draft"), running = Boolean(status.running), step = nextStep(running);
    const bar = running
      ? `<button data-do="stop" data-key="run">■ Stop</button><progress aria-label="Replies" ${status.total ? `value="${+status.done}" max="${+status.total}"` : ""}></progress><small class="ekw-count">${esc(status.text)}</small>` : "";
    const run = `<button class="${step.isNeeded && !status.button ? "" : "ekw-primary"}" data-do="run" data-key="run" aria-keyshortcuts="Control+Enter" ${offIf(running || draft.problem)}>▶ Run${status.button && !running ? `: ${price(status.button)}` : ""}</button>`;
    put(".ekw-run", `${running ? bar : run}
      <button data-do="save" data-key="save" aria-label="Save version" ${offIf(running || draft.problem)} title="Save the rubric as its next version">Save</button>
      <button class="${step.isNeeded && !status.button ? "ekw-primary" : ""}" data-do="${step.action}" data-key="queue" ${step.action === "queue" ? 'aria-keyshortcuts="l"' : ""} title="${esc(step.title)}">${step.text}</button>`);
    if (running || status.text === words) return;
    words = status.text || "";
    const freezes = /^saved as |press Freeze again/.test(words) ? ' <button data-do="freeze" data-key="freeze it">Freeze</button>' : "";
    find(".ekw-done").classList.toggle("ekw-sr", !isExpected || !words);
    isExpected = false;
    put(".ekw-done", words && `<span>${esc(words)}</span>${freezes}`);
  }
  function drawJury() {
    const jury = get("jury"), judges = jury.judges || [];
    const on = judges.filter((judge) => judge.on).length, box = find("[data-new]");
    if (box && judges.length > n) box.value = ""; // it was added
    n = judges.length;
    // the last message of this view is answered: its fields show what Python holds
    const isAnswered = jury.answers !== answer && jury.answers === sent;
    answer = jury.answers;
    find('[data-box="jury"] > summary').textContent = `Jury: ${counted(on, "judge")} × ${counted(jury.samples, "sample")}, ${jury.aggregate}`;
    put(".ekw-jury", `<table><thead><tr><th scope="col">Judge</th><th scope="col">Weight</th></tr></thead><tbody>${judges
      .map((judge) => `<tr><td><label class="ekw-check"><input type="checkbox" data-jury="on" data-key="on ${esc(judge.name)}" data-name="${esc(judge.name)}" ${judge.on ? "checked" : ""}><span>${esc(judge.name)}${judge.server ? `<br><small>${esc(judge.server)}</small>` : ""}</span></label></td>
        <td><input type="number" min="0" step="0.5" data-jury="weight" data-key="weight ${esc(judge.name)}" data-name="${esc(judge.name)}" value="${+judge.weight}" aria-label="Weight of ${esc(judge.name)}"></td></tr>`)
      .join("")}</tbody></table>
      <div class="ekw-line"><label class="ekw-short">Samples <input type="number" min="1" max="25" data-jury="samples" data-key="samples" value="${+jury.samples}"></label>
      <label class="ekw-short">Aggregate <select data-jury="aggregate" data-key="aggregate">${options(jury.aggregates || [], jury.aggregate)}</select></label></div>
      <label class="ekw-short">Spend at most US$ <input type="number" min="0" step="0.01" data-jury="budget" data-key="budget" value="${esc(jury.budget_usd ?? "")}"> in this session</label>
      <div class="ekw-line"><input data-new placeholder="openai:gpt-4o-mini" data-key="new" aria-label="Another judge, provider:model">${jury.servers?.length > 1 ? `<select data-server data-key="server" aria-label="Its server"><option value="">server of the jury</option>${jury.servers.map((name) => `<option>${esc(name)}</option>`).join("")}</select>` : ""}<button data-do="judge" data-key="add judge">Add judge</button></div>
      <small class="ekw-where">Replies are stored in ${esc(jury.cache)}.</small>`, isAnswered && "jury");
  }
  // The fields are sent as they are now; returns the id of the message.
  function juryMessage() {
    find(".ekw-jury").querySelectorAll("[data-jury]").forEach((one) => { one.dataset.sent = one.value; });
    return (sent = ctx.nextId());
  }
  function drawVersions() {
    const { versions = [], diff = [], current, against } = get("figures");
    const name = (key) => esc(versions.find((one) => one.key === key)?.name);
    find('[data-box="versions"] > summary').textContent = `Versions: ${versions.length}`;
    const rows = versions.map((one) => `<li><div class="ekw-line"><b>${esc(one.name)}</b>
      <input data-note="${esc(one.key)}" data-key="note ${esc(one.key)}" aria-label="Note on ${esc(one.name)}" placeholder="Note" value="${esc(one.note)}"></div>
      <small>${one.point ? `${esc(one.point.text)} · ` : ""}${esc(one.jury)} · ${esc(clock(one.at))} · in tables ${esc(one.label)}</small></li>`).reverse().join("");
    const words = diff.map((one) => `<li><b>${esc(one.where)}</b> ${changedWords(one.words)}</li>`).join("");
    put(".ekw-versions", versions.length
      ? `<ol class="ekw-list-of-versions" reversed>${rows}</ol>${against ? `<h4>${name(current)} against ${name(against)}</h4><ul class="ekw-diff" aria-label="Changes in the version shown">${words || "<li>Only settings of judges differ.</li>"}</ul>` : ""}
        <div class="ekw-line"><button data-do="take" data-key="take" data-version="${esc(current)}">Edit the version shown</button><button data-do="freeze" data-key="freeze" title="Write the version shown as a judge for scripts, the gate and pytest">Freeze</button><button data-do="code" data-key="code">Copy as code</button><small class="ekw-copied" role="status"></small></div><pre class="ekw-codetext" hidden tabindex="0"></pre>`
      : "<p class='ekw-empty'>Versions that were run appear here.</p>");
  }

  function effect({ part, agreement, coverage, effect: value, interval: note, counts: moved, mark }) {
    const tiles = [{ title: `Agreement, ${part} labels`, value: agreement, note: coverage }, { title: `Effect, ${part} labels`, value, moved, mark, note }];
    return `<dl class="ekw-tiles" aria-label="${part === "dev" ? "Dev" : "Held-out"} labels">${tiles.map(drawTile).join("")}</dl>`;
  }
  function suggestion(row, at, running, shown) {
    const tried = row.effects.length > 0, name = `suggestion ${at + 1}`;
    const buttons = tried
      ? `<button data-do="showtry" data-key="try ${at}" data-version="${esc(row.key)}" data-base="${esc(row.base)}" aria-label="Show ${name}" ${offIf(row.key === shown)}>${row.key === shown ? "Shown" : "Show"}</button>
        <button data-do="take" data-key="takeup ${at}" data-version="${esc(row.key)}" aria-label="Use ${name} in the rubric">Use it</button>`
      : `<button data-do="try" data-key="try ${at}" data-number="${at}" ${offIf(running)} aria-label="Try ${name}${row.price ? `: ${esc(row.price)}` : ""}">Try${row.price ? `: ${esc(row.price)}` : ""}</button>`;
    return `<li><article aria-label="Suggestion ${at + 1}"><h4>${esc(row.where)}</h4><p class="ekw-new">${changedWords(row.words, 80)}</p>
      <p><small>${esc(row.reason)}</small></p><details><summary>full text, and what it replaces</summary><p>${esc(row.text)}</p><p><small>${esc(row.was) || "(nothing)"}</small></p></details>
      <div class="ekw-line">${buttons}</div>${row.effects.map(effect).join("")}${tried ? `<small>${esc(row.effects[0].changed)}</small>` : ""}</article></li>`;
  }
  function drawSuggestions() {
    const suggestions = get("suggestions"), rows = suggestions.rows || [], running = Boolean(get("status").running), board = get("figures");
    find('[data-box="suggestions"] > summary').textContent = rows.length ? `Suggestions: ${rows.length}, of ${suggestions.of}` : "Suggestions";
    if (!get("page").judged) return put(".ekw-suggestions", "<p class='ekw-empty'>After a run, a judge can suggest edits from dev items on which jury and people disagree.</p>");
    const look = board.split ? "Trying an edit counts as a look at the held-out labels." : "There are too few labels to hold some out: effects are measured on the labels that the edits were made from.";
    const price = suggestions.prices?.[find("[data-suggester]")?.value || suggestions.judge], nothing = (price || "").startsWith("nothing");
    put(".ekw-suggestions", `<div class="ekw-line"><label class="ekw-short">Judge <input data-suggester data-key="suggester" list="${ctx.id}-suggesters" value="${esc(suggestions.judge)}" aria-label="Judge that suggests edits"></label>
      <datalist id="${ctx.id}-suggesters">${(suggestions.judges || []).map((name) => `<option value="${esc(name)}">`).join("")}</datalist>
      <button data-do="suggest" data-key="suggest" ${offIf(running || !board.current || nothing)}>${rows.length ? "Suggest others" : "Suggest edits"}</button></div>
      <small>${nothing ? `Would send ${esc(price)}` : `Sends one request${price ? ` (${esc(price)})` : ""} to this judge, with dev items on which jury and people disagree`}. ${look}</small>
      ${suggestions.head ? `<p role="status"><small>${esc(suggestions.head)}</small></p>` : ""}${(suggestions.notes || []).map((note) => `<p class="ekw-note">${esc(note)}</p>`).join("")}
      ${rows.length ? `<ol class="ekw-edits">${rows.map((row, at) => suggestion(row, at, running, board.current)).join("")}</ol>` : ""}`);
  }
  return { drawRun, expectWords, drawJury, juryMessage, drawVersions, drawSuggestions };
}
