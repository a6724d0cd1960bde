// The label page: one item, all questions about it on one form; and the lead's view: agreement, people, decisions.
const LABEL_SKELETON = `<div class="ekw-alert" role="alert"></div><div class="ekw-page-head"></div>
<div class="ekw-work"><div class="ekw-read" tabindex="-1" role="group" aria-label="What you judge"></div><div class="ekw-answers" role="group" aria-label="Your judgment"></div></div>
<div class="ekw-acts"></div>
<div class="ekw-lead"><div class="ekw-sum"></div><div class="ekw-decide" data-stay></div><div class="ekw-differ"></div></div>`;
const REASONS = ["I cannot tell", "The text is broken or missing", "Someone else should judge it", "Other"];

function renderLabels({ model, el }) {
  const ctx = createWidget(model, el, "ekw ekw-label", LABEL_SKELETON), { root, find, put, get, send } = ctx, items = itemsPart(ctx);
  let waiting = "", number = 0, drawn = "", answers = [], here = 0, skipping = false, comment = "";
  const lead = () => get("form").view === "lead", panel = () => get("form").panel || {}, quiet = (text) => `<p class="ekw-dim">${text}</p>`;
  function ask(message) { // no key counts until Python has answered: it would be for an item that was not read yet
    if (waiting) return;
    waiting = `${ctx.id} ${++number}`;
    send({ ...message, id: waiting });
  }
  const levels = (question, k, chosen) => question.ends
    ? `<label class="ekw-short">A number from ${+question.ends[0]} to ${+question.ends[1]} <input type="number" step="any" min="${+question.ends[0]}" max="${+question.ends[1]}" data-question="${k}" data-key="q${k}" value="${esc(chosen ?? "")}"></label>`
    : `<div class="ekw-opts">${question.levels.map(([code, text], at) => `<label class="ekw-opt"><input type="radio" name="${ctx.id} ${k}" value="${esc(code)}" data-question="${k}" data-key="q${k} ${at}" ${chosen === code ? "checked" : ""} ${at < 9 ? `aria-keyshortcuts="${at + 1}"` : ""}>${at < 9 ? `<kbd aria-hidden="true">${at + 1}</kbd>` : "<i></i>"}<span>${esc(text)}</span></label>`).join("")}</div>`;
  const missing = () => answers.filter((one) => one === null || one === "").length;

  // -- one person
  function drawForm() {
    const form = get("form");
    put(".ekw-page-head", `<h3>${esc(form.title)}</h3><progress max="${+form.n}" value="${+form.n_done}" aria-label="Done"></progress><span class="ekw-count" role="status">${+form.n_done} of ${+form.n} done${form.n_skipped ? `, ${+form.n_skipped} skipped` : ""}</span>
      <p class="ekw-dim">You are <b>${esc(form.annotator)}</b>. ${form.others ? "You see what other people answered, and no judge." : "You see neither the other people’s answers nor the judges’."} Every form is saved at once; this page continues where you stopped.${form.description ? ` ${esc(form.description)}` : ""}</p>`);
    if (drawn !== `${form.number} ${form.form}`) {
      drawn = `${form.number} ${form.form}`;
      [here, skipping, comment, answers] = [0, false, form.comment || "", (form.questions || []).map((one) => one.answer)];
      const others = (one) => (one.people?.length ? quiet(one.people.map(([who, label]) => `${esc(who)}: ${esc(one.levels.find(([code]) => code === label)?.[1] ?? label)}`).join(" · ")) : "");
      const rest = form.n_skipped ? `${counted(form.n_skipped, "item")} skipped. <button data-do="again" data-key="again">Look at ${+form.n_skipped === 1 ? "it" : "them"} again</button>` : "You can close this page.";
      put(".ekw-read", form.form ? `<h3>${esc(form.form)}</h3>${items.inputs(form.inputs, form.forms)}` : `<h3>${form.n_skipped ? "You are through." : `All ${+form.n} items are done. Thank you, ${esc(form.annotator)}.`}</h3><p>Your answers are saved. ${rest}</p>`);
      put(".ekw-answers", form.form ? `${form.questions.map((one, k) => `<fieldset data-k="${k}" class="${one.levels.length === 3 ? "ekw-three" : ""}"><legend>${k + 1}. ${esc(one.title)}</legend>${one.text ? quiet(esc(one.text)) : ""}${others(one)}${levels(one, k, one.answer)}</fieldset>`).join("")}
        <label>Comment, if you like <kbd>C</kbd><textarea rows="1" data-comment data-key="comment" aria-keyshortcuts="c">${esc(comment)}</textarea></label>` : "");
      root.classList.toggle("ekw-through", !form.form);
      if (root.contains(ctx.focused())) find(".ekw-read").focus({ preventScroll: true });
      if (root.getBoundingClientRect().top < 0) root.scrollIntoView();
    }
    drawFoot();
  }
  function drawFoot() {
    const form = get("form"), left = missing(), all = answers.length;
    root.querySelectorAll(".ekw-answers fieldset").forEach((one, k) => one.classList.toggle("ekw-here", k === here));
    put(".ekw-acts", `${form.form ? `<button class="ekw-primary" data-do="save" data-key="save" aria-keyshortcuts="Enter" ${offIf(left)}>Save and next <kbd>Enter</kbd></button><span class="ekw-dim" role="status">${left ? `${left} of ${counted(all, "question")} open` : "all answered"}</span>` : ""}<span class="ekw-push"></span>
      ${form.form ? `<button data-do="skip" data-key="skip" aria-expanded="${skipping}" aria-keyshortcuts="s">Skip … <kbd>S</kbd></button>` : ""}<button data-do="undo" data-key="undo" aria-keyshortcuts="u" ${offIf(!form.undo)}>${form.undo ? `Back to ${esc(form.undo)}` : "Undo"} <kbd>U</kbd></button>
      ${skipping ? `<div class="ekw-why" role="group" aria-label="Why do you skip it?"><b>Why?</b>${REASONS.map((one, at) => `<button data-do="why" data-key="why ${at}" aria-keyshortcuts="${at + 1}">${one} <kbd>${at + 1}</kbd></button>`).join("")}<span class="ekw-dim">You can come back to it at the end.</span></div>` : ""}`);
  }
  function answer(k, value, moves) {
    answers[k] = value;
    if (moves) {
      const next = answers.findIndex((one) => one === null || one === "");
      here = next < 0 ? k : next;
    }
    drawFoot();
    if (moves) root.querySelector(`[data-k="${here}"]`)?.scrollIntoView({ block: "nearest" });
  }
  const ACTIONS = {
    dismiss: () => send({ do: "dismiss" }),
    save: () => ask(lead() ? { do: "decide", item: panel().item, criterion: panel().criterion, label: answers[0], comment } : { do: "save", form: get("form").form, answers, comment }),
    skip: () => { skipping = !skipping; drawFoot(); },
    why: (one) => ask({ do: "skip", form: get("form").form, reason: REASONS[+one.dataset.key.slice(4)] }),
    undo: () => ask({ do: "undo", form: get("form").undo }),
    again: () => ask({ do: "again" }),
    fold: items.fold,
    step: (one) => ask({ do: "step", step: +one.dataset.step }),
    turn: (one) => ask({ do: "turn", step: +one.dataset.step }),
    open: (one) => ask({ do: "open", item: one.dataset.item, criterion: one.dataset.name }),
    filter: (one) => ask({ do: "filter", criterion: one.dataset.name, open: get("form").filter.open }),
    undecided: () => ask({ do: "filter", criterion: get("form").filter.criterion, open: !get("form").filter.open }),
    none: () => ask({ do: "decide", item: panel().item, criterion: panel().criterion, label: null, comment }),
  };

  // -- the lead
  function drawLead() {
    const form = get("form"), { sentence } = form, percent = (value) => `${(value * 100).toFixed(1)}%`, two = (value) => (value === null ? "NA" : value.toFixed(2));
    const agreement = form.agreement.map((one) => `<tr><th scope="row">${esc(one.criterion)}</th><td class="ekw-number">${+one.n}</td><td class="ekw-number"><b>${two(one.value)}</b></td><td><span class="ekw-interval" role="img" aria-label="${two(one.low)} to ${two(one.high)}"><u></u><i style="left:${percent(one.low)};width:${percent(one.high - one.low)}"></i><b style="left:${percent(one.value)}"></b></span></td><td class="ekw-number">${two(one.alpha)}</td><td class="ekw-number">${+one.differ}</td>
      <td><svg width="72" height="18" role="img" aria-label="from ${two(one.course[0])} to ${two(one.course.at(-1))}"><polyline fill="none" stroke="currentColor" stroke-width="1.5" points="${(one.course.length > 1 ? one.course : [...one.course, ...one.course]).map((y, at, all) => `${1 + (at * 70) / (all.length - 1)},${17 - y * 16}`).join(" ")}"/></svg></td></tr>`).join("");
    const people = form.people.map((one) => `<div class="ekw-person"><b>${esc(one.name)}</b><progress max="${+one.n || 1}" value="${+one.n_done}" aria-label="Progress of ${esc(one.name)}"></progress><span class="ekw-count">${+one.n_done} of ${+one.n}</span><small>${esc(one.note)}</small></div>`).join("");
    put(".ekw-sum", `<div class="ekw-says"><h3 class="ekw-say">${esc(sentence.verdict)} <i>${esc(sentence.figure)}</i></h3>${quiet(esc(sentence.reason))}</div>
      <div><h3>Agreement of people with each other, as they go</h3>${agreement ? `<table class="ekw-tab ekw-agree"><thead><tr><th scope="col">Criterion</th><th scope="col" class="ekw-number">Items</th><th scope="col" class="ekw-number">Agree</th><th scope="col">95 % interval</th><th scope="col" class="ekw-number">Alpha</th><th scope="col" class="ekw-number">Differ</th><th scope="col">So far</th></tr></thead><tbody>${agreement}</tbody></table>${quiet("Items that at least two people labelled. Dashed: 0.80. Alpha is agreement beyond chance. The line shows the agreement after every 10 items.")}` : quiet("No item has two labels yet.")}</div>
      <div><h3>People</h3>${people}</div>`);
    const shown = JSON.stringify(panel());
    if (drawn !== shown) {
      drawn = shown;
      [answers, comment] = [[panel().decision === "open" ? null : panel().decision ?? null], panel().comment || ""];
      drawPanel();
    }
    drawDecision();
    const chip = ([name, n]) => `<button data-do="filter" data-key="filter ${esc(name)}" data-name="${esc(name)}" aria-pressed="${form.filter.criterion === name}">${esc(name || "All")} ${+n}</button>`;
    const rows = form.rows.map((one) => `<tr ${one.on ? 'aria-current="true"' : ""}><th scope="row" class="ekw-t"><div class="ekw-two"><span class="ekw-id">${esc(one.item)}</span>${esc(one.text)}</div></th><td class="ekw-c">${esc(one.criterion)}</td>${one.labels.map((label) => `<td class="ekw-w">${label === null ? "" : `<span class="ekw-human">${esc(label)}</span>`}</td>`).join("")}<td class="ekw-w">${one.decision === null ? "" : `<span class="ekw-human">${esc(one.decision)}</span>`}</td>
      <td class="ekw-b"><button data-do="open" data-key="open ${esc(one.item)} ${esc(one.criterion)}" data-item="${esc(one.item)}" data-name="${esc(one.criterion)}" aria-label="Decide ${esc(one.item)}: ${esc(one.criterion)}">${one.decision === null ? "Decide" : "Change"}</button></td></tr>`).join("");
    put(".ekw-differ", form.filters[0][1] ? `<h3>Items on which they differ</h3><div class="ekw-filters" role="group" aria-label="Which differences">${form.filters.map(chip).join("")}<button data-do="undecided" data-key="undecided" aria-pressed="${form.filter.open}">not decided ${+form.n_open}</button></div>
      <table class="ekw-tab ekw-diffs"><thead><tr><th scope="col" class="ekw-t">Item</th><th scope="col" class="ekw-c">Criterion</th>${form.names.map((name) => `<th scope="col" class="ekw-w">${esc(name)}</th>`).join("")}<th scope="col" class="ekw-w">Decision</th><th class="ekw-b"><span class="ekw-sr">Decide</span></th></tr></thead><tbody>${rows}</tbody></table>
      <div class="ekw-foot"><span role="status">${counted(form.n, "difference")}</span><span class="ekw-push"></span>${ctx.pager(form)}</div>` : "");
  }
  function drawPanel() {
    const form = get("form"), one = panel();
    put(".ekw-decide", !one.item ? "" : `<div class="ekw-item-head"><h3>Decide ${esc(one.item)} <small>${esc(one.question.title)}</small></h3><span class="ekw-push"></span><span class="ekw-place"></span><button data-do="step" data-key="step -1" data-step="-1" aria-keyshortcuts="k">◂ Previous <kbd>K</kbd></button><button data-do="step" data-key="step 1" data-step="1" aria-keyshortcuts="j">Next <kbd>J</kbd> ▸</button></div>
      <div class="ekw-item-body">${items.inputs(one.inputs, one.forms)}<div class="ekw-judges">${one.said.map(([who, code, text, note]) => `<article><b>${esc(who)}</b> <span class="ekw-human">${esc(code)}</span> ${text === code ? "" : esc(text)}${note ? `<p>“${esc(note)}”</p>` : ""}</article>`).join("")}</div>
      <fieldset><legend>Your decision <small>kept as a label of “${esc(form.decider)}”; the other labels stay as they are</small></legend>${one.question.text ? quiet(esc(one.question.text)) : ""}${levels(one.question, 0, answers[0])}</fieldset>
      <label>Reason, so that the rubric can say it next time <kbd>C</kbd><textarea rows="1" data-comment data-key="comment">${esc(comment)}</textarea></label><div class="ekw-line ekw-verdict"></div></div>`);
    items.measureFolds();
  }
  function drawDecision() {
    const form = get("form");
    if (!panel().item) return;
    put(".ekw-place", `${form.place + 1} of ${+form.n}`);
    put(".ekw-verdict", `<button class="ekw-primary" data-do="save" data-key="save" aria-keyshortcuts="Enter" ${offIf(missing())}>Save and next <kbd>Enter</kbd></button><button data-do="none" data-key="none">Cannot be decided</button><span class="ekw-push"></span><button class="ekw-quiet" data-do="undo" data-key="undo" aria-keyshortcuts="u" ${offIf(!form.undo)}>Undo ${esc(form.undo)} <kbd>U</kbd></button>`);
  }

  // -- input
  const change = (k, value, moves) => (lead() ? (answers[0] = value, drawDecision()) : answer(k, value, moves));
  listen(ctx, ACTIONS, ({ target }) => {
    if ("comment" in target.dataset) comment = target.value;
    else if (target.type === "number") change(+target.dataset.question, target.validity.valid ? target.value : "", false);
    return true;
  });
  root.addEventListener("change", ({ target }) => { if (target.type === "radio") change(+target.dataset.question, target.value, false); });
  root.addEventListener("focusin", ({ target }) => {
    const k = target.closest(".ekw-answers fieldset")?.dataset.k;
    if (k !== undefined && +k !== here) { here = +k; root.querySelectorAll(".ekw-answers fieldset").forEach((one) => one.classList.toggle("ekw-here", +one.dataset.k === here)); }
  });
  function pressed(event) {
    const path = event.composedPath(), target = path[0], page = target === document.body && !("jpThemeLight" in document.body.dataset);
    if ((!path.includes(root) && !page) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.stopPropagation();
    if (target.matches("textarea, [type=number]")) {
      if (event.key === "Escape") find(lead() ? ".ekw-decide" : ".ekw-read").closest("[tabindex]")?.focus() ?? target.blur();
      if (event.key !== "Enter" || target.matches("textarea")) return;
    }
    const form = get("form"), digit = /^[1-9]$/.test(event.key) ? +event.key : 0, { key } = event, k = lead() ? 0 : here;
    const question = lead() ? panel().question : form.questions?.[here], click = (name) => { const one = find(`[data-do="${name}"]`); if (one && one.ariaDisabled !== "true") ACTIONS[name](one); };
    if (digit && skipping) find(`[data-key="why ${digit - 1}"]`)?.click();
    else if (digit && question?.ends) find(`input[data-question="${k}"]`).focus();
    else if (digit && question?.levels[digit - 1]) {
      const radio = find(`[data-key="q${k} ${digit - 1}"]`);
      radio.checked = true;
      change(k, radio.value, true);
    } else if (key === "Enter" && !target.closest("button, summary, a")) click("save");
    else if (key === "s" || (key === "Escape" && skipping)) click("skip");
    else if (key === "u") click("undo");
    else if (lead() && (key === "j" || key === "k")) ask({ do: "step", step: key === "j" ? 1 : -1 });
    else if (key === "c") find("[data-comment]")?.focus();
    else return;
    event.preventDefault();
  }
  document.addEventListener("keydown", pressed, true);
  const poll = setInterval(() => { if (lead() && !document.hidden && root.isConnected) send({ do: "look" }); }, 10000);
  function draw() {
    if (get("form").answers === waiting) waiting = "";
    root.classList.toggle("ekw-leads", lead());
    (lead() ? drawLead : drawForm)();
  }
  const end = drawOnChange(ctx, model, { form: [draw], alert: [ctx.drawAlert] });
  return () => { clearInterval(poll); document.removeEventListener("keydown", pressed, true); items.end(); end(); };
}
export default { render: renderLabels };
