// The label page: one item, all questions about it on one form; and the lead's view: agreement, people, decisions.
const LABEL_SKELETON = `<div class="ekw-alert" role="alert"></div><div class="ekw-page-head"></div>
<div class="ekw-work"><div class="ekw-read" tabindex="-1" role="group" aria-label="What you judge"></div><div class="ekw-answers" role="group" aria-label="Your judgment"></div></div>
<div class="ekw-acts"></div><div class="ekw-lead"><div class="ekw-sum"></div><div class="ekw-decide" tabindex="-1" role="group" aria-label="Decide"></div><div class="ekw-differ"></div></div>`;
const REASONS = ["I cannot tell", "The text is broken or missing", "Someone else should judge it", "Other: see the comment"];
const PATIENCE_MS = 8000, SLOW_MS = 700, NO_ANSWER = "Not saved: the program behind this page does not answer.\nLeave the page open and try again. If this stays, tell the person who sent you the address: the page was ended, or started again with new addresses. What you saved before is safe.";

function renderLabels({ model, el }) {
  const ctx = createWidget(model, el, "ekw ekw-label", LABEL_SKELETON), { root, find, put, get, send } = ctx, items = itemsPart(ctx);
  let waiting = "", sent = "", drawn = "", decided = "", answers = [], here = 0, skipping = false, comment = "", drafts = {}, only = "", undecided = false, page = 0;
  const form = () => get("form"), lead = () => form().view === "lead", panel = () => form().panel || {}, question = () => (lead() ? panel().question : form().questions?.[here]);
  const quiet = (text) => `<p class="ekw-dim">${text}</p>`, isOpen = (one) => one === null || one === "", open = () => answers.filter(isOpen).length;
  const given = () => JSON.stringify([answers, comment]);
  const saving = (text) => { const place = find(".ekw-saving"); if (place) place.textContent = text; };
  // No key counts until Python has answered: it would be for an item that was not read yet. A press is refused, not lost.
  const isBusy = () => waiting && (saving("Saving … this press was not taken; wait for the next item"), true);
  const lock = () => root.querySelectorAll("textarea, [data-number]").forEach((one) => { one.readOnly = !!waiting; });
  function ask(message) {
    if (isBusy()) return;
    const id = (waiting = ctx.nextId());
    sent = message.do === "save" ? given() : "";
    send({ ...message, id });
    lock();
    setTimeout(() => waiting === id && !find(".ekw-saving")?.textContent.startsWith("Saving") && saving("Saving …"), SLOW_MS);
    setTimeout(() => {
      if (waiting !== id) return;
      waiting = "";
      lock();
      saving("");
      ctx.showAlert(NO_ANSWER);
      find(".ekw-alert").scrollIntoView({ block: "nearest" });
    }, PATIENCE_MS);
  }
  // A field of text: one of numbers reads "8,5" as 85, and the wheel changes it.
  const isNumber = (text, [low, high]) => /^-?(\d+\.?\d*|\.\d+)$/.test(text) && +text >= low && +text <= high;
  const levels = (one, k, chosen) => one.ends
    ? `${quiet(one.levels.filter(([code, text]) => code !== text).map(([code, text]) => `${esc(code)}: ${esc(text)}`).join(" · "))}<label class="ekw-short">A number from ${+one.ends[0]} to ${+one.ends[1]} <input inputmode="decimal" autocomplete="off" data-number data-question="${k}" data-key="q${k} 0" value="${esc(chosen ?? "")}"></label><p class="ekw-wrong" role="status"></p>`
    : `<div class="ekw-opts">${one.levels.map(([code, text, key], at) => `<label class="ekw-opt"><input type="radio" name="${ctx.id} ${k}" value="${esc(code)}" data-question="${k}" data-key="q${k} ${at}" ${chosen === code ? "checked" : ""} ${key ? `aria-keyshortcuts="${key}"` : ""}>${key ? `<kbd aria-hidden="true">${key}</kbd>` : "<i></i>"}<span ${code === text || code === key ? "" : `data-code="${esc(code)}"`}>${esc(text)}</span></label>`).join("")}</div>`;
  const saveButton = () => `<button class="ekw-primary" data-do="save" data-key="save" aria-keyshortcuts="Enter" ${offIf(open())}>${form().answered ? "Save the change" : "Save and next"} <kbd>Enter</kbd></button>`;
  const undoButton = (text) => `<button data-do="undo" data-key="undo" aria-keyshortcuts="u" ${offIf(!form().undo)}>${text} <kbd>U</kbd></button>`;
  const commentField = (title) => `<label>${title} <kbd>C</kbd><textarea rows="1" data-comment data-key="comment" aria-keyshortcuts="c">${esc(comment)}</textarea></label>`;

  // -- one person
  function drawForm() {
    const { form: name, n, n_done, n_skipped, annotator, others, questions = [], earlier = [], ...it } = form();
    put(".ekw-page-head", `<h3>${esc(it.title)}</h3><progress max="${+n}" value="${+n_done}" aria-label="Done"></progress><span class="ekw-count" role="status">${+n_done} of ${+n} done${n_skipped ? `, ${+n_skipped} skipped` : ""}</span>
      ${quiet(`You are <b>${esc(annotator)}</b>. ${others ? "You see what other people answered, and no judge." : "You see neither the other people’s answers nor the judges’."} “Save and next” saves; this page continues where you stopped. ${esc(it.description)}`)}
      ${earlier.length ? `<label class="ekw-short">Earlier <kbd>E</kbd> <select data-earlier data-key="earlier" aria-keyshortcuts="e"><option value="">look or correct</option>${earlier.map(([one, said]) => `<option value="${esc(one)}">${esc(one)}: ${esc(said)}</option>`).join("")}</select></label>` : ""}`);
    if (drawn !== `${it.number} ${name}`) {
      if (sent && sent !== given()) ctx.showAlert("That form was saved as it was when you first pressed Save. To change it, choose it under “Earlier”.");
      const draft = it.answered ? {} : drafts[name] || {};
      [drawn, here, skipping, comment, answers] = [`${it.number} ${name}`, 0, false, it.comment || draft.comment || "", questions.map((one, k) => one.answer ?? draft.answers?.[k] ?? null)];
      sent = "";
      if (root.contains(ctx.focused())) find(".ekw-read").focus({ preventScroll: true }); // else it would go to the same place of the next form
      const said = (one) => (one.people.length ? quiet(one.people.map(([who, label]) => `${esc(who)}: ${esc(one.levels.find(([code]) => code === label)?.[1] ?? label)}`).join(" · ")) : "");
      put(".ekw-read", name ? `<h3>${esc(name)}</h3>${it.answered ? quiet("You answered this one before: your answers are chosen. Saving replaces them.") : ""}${it.again != null ? quiet(`All others are done. You skipped this one before: ${esc(it.again)}`) : ""}${items.inputs(it.inputs, it.forms, true)}` : `<h3>All ${counted(n, "item")} are done. Thank you, ${esc(annotator)}.</h3><p>Your answers are saved. You can close this page.</p>`);
      put(".ekw-answers", questions.map((one, k) => `<fieldset data-k="${k}" class="${one.levels.length === 3 ? "ekw-three" : ""}"><legend>${k + 1}. ${esc(one.title)}</legend>${one.text && one.text !== questions[k - 1]?.text ? quiet(esc(one.text)) : ""}${said(one)}${levels(one, k, answers[k])}</fieldset>`).join("") + (name ? commentField("Comment, if you like") : ""));
      root.classList.toggle("ekw-through", !name);
      if (root.getBoundingClientRect().top < 0) root.scrollIntoView();
    }
    drawFoot();
  }
  const frame = () => root.querySelectorAll(".ekw-answers fieldset").forEach((one, k) => one.classList.toggle("ekw-here", k === here));
  function drawFoot() {
    const why = `<div class="ekw-why" role="group" aria-label="Why do you skip it?"><b>Why?</b>${REASONS.map((one, at) => `<button data-do="why" data-key="why ${at}" aria-keyshortcuts="${at + 1}">${one} <kbd>${at + 1}</kbd></button>`).join("")}<span class="ekw-dim">It is asked again at the end.</span></div>`;
    frame();
    put(".ekw-acts", `${form().form ? `${saveButton()}<span class="ekw-dim ekw-saving" role="status">${open() ? `${open()} of ${counted(answers.length, "question")} open` : "all answered"}</span>` : ""}<span class="ekw-push"></span>
      ${form().answered ? `<button data-do="leave" data-key="leave" aria-keyshortcuts="Escape">Leave it as it is <kbd>Esc</kbd></button>` : ""}${form().form ? `<button data-do="comment" data-key="to comment" aria-keyshortcuts="c">Comment <kbd>C</kbd></button>${form().answered ? "" : `<button data-do="skip" data-key="skip" aria-expanded="${skipping}" aria-keyshortcuts="s">Skip … <kbd>S</kbd></button>`}` : ""}${undoButton(form().undo ? `Take back ${esc(form().undo)}` : "Undo")}${skipping ? why : ""}`);
  }
  const leave = (name) => { if (!form().answered) drafts[form().form] = { answers, comment }; ask({ do: "open", form: name }); };
  function answer(k, value, moves) {
    answers[k] = value;
    if (lead()) return drawDecision();
    drawFoot();
    if (moves) toOpen();
  }
  function toOpen() {
    if (open()) here = answers.findIndex(isOpen);
    frame();
    find(`[data-k="${here}"]`).scrollIntoView({ block: "nearest" });
  }

  // -- the lead
  const chosen = () => form().rows.filter((one) => (!only || one.criterion === only) && !(undecided && one.decision !== null)), isOn = (one) => one.item === panel().item && one.criterion === panel().criterion;
  const openRow = (one) => one && ask({ do: "open", item: one.item, criterion: one.criterion });
  const nextOpen = () => { const all = chosen(), at = all.findIndex(isOn); return [...all.slice(at + 1), ...all.slice(0, Math.max(at, 0))].find((one) => one.decision === null) || panel(); };
  const step = (by) => openRow(chosen()[Math.max(0, chosen().findIndex(isOn) + by)]);
  const show = (changes) => { [only, undecided, page] = [changes.only ?? only, changes.undecided ?? undecided, changes.page ?? 0]; drawList(); };
  function drawLead() {
    const percent = (value) => `${(value * 100).toFixed(1)}%`, two = (value) => (value === null ? "NA" : value.toFixed(2)), [verdict, value, reason] = form().sentence;
    const course = (all) => `<svg width="72" height="18" role="img" aria-label="from ${two(all[0])} to ${two(all.at(-1))}"><polyline fill="none" stroke="currentColor" stroke-width="1.5" points="${[...all, ...all.slice(-1)].map((y, at) => `${1 + (Math.min(at, all.length - 1) * 70) / Math.max(1, all.length - 1)},${17 - y * 16}`).join(" ")}"/></svg>`;
    const agreement = form().agreement.map((one) => `<tr><th scope="row">${esc(one.criterion)}</th><td class="ekw-number">${+one.n}</td><td class="ekw-number"><b>${two(one.value)}</b></td><td><span class="ekw-interval" role="img" aria-label="${two(one.low)} to ${two(one.high)}"><u></u><i style="left:${percent(one.low)};width:${percent(one.high - one.low)}"></i><b style="left:${percent(one.value)};margin-left:${-10 * one.value}px"></b></span></td><td class="ekw-number">${two(one.alpha)}</td><td class="ekw-number">${+one.differ}</td><td>${course(one.course)}</td></tr>`).join("");
    put(".ekw-sum", `<div class="ekw-says"><h3 class="ekw-say">${esc(verdict)} <i>${esc(value)}</i></h3>${quiet(esc(reason))}</div>
      <div><h3>Agreement of people with each other, as they go</h3>${agreement && `<table class="ekw-tab ekw-agree"><thead><tr><th scope="col">Criterion</th>${["Items", "Agree"].map((name) => `<th scope="col" class="ekw-number">${name}</th>`).join("")}<th scope="col">95 % interval</th>${["Alpha", "Differ"].map((name) => `<th scope="col" class="ekw-number">${name}</th>`).join("")}<th scope="col">So far</th></tr></thead><tbody>${agreement}</tbody></table>`}
      ${quiet("Items that two people or more labelled. Dashed: 0.80. Alpha is agreement beyond chance. The line shows the agreement after every 10 items.")}</div>
      <div><h3>People</h3>${form().people.map(([name, done, n, note]) => `<div class="ekw-person"><b>${esc(name)}</b><progress max="${+n || 1}" value="${+done}" aria-label="Progress of ${esc(name)}"></progress><span class="ekw-count">${+done} of ${+n}</span><small>${esc(note)}</small></div>`).join("")}</div>`);
    const { said, ...one } = panel();
    if (decided !== JSON.stringify(one)) [decided, answers, comment] = [JSON.stringify(one), [one.decision ?? null], one.comment || ""]; // else what was typed stays
    if (drawn !== JSON.stringify(panel())) { drawn = JSON.stringify(panel()); drawPanel(); }
    drawDecision();
    drawList();
  }
  function drawPanel() {
    const one = panel(), turn = (by, key, text) => `<button data-do="step" data-key="step ${by}" data-step="${by}" aria-keyshortcuts="${key}">${text}</button>`;
    put(".ekw-decide", !one.item ? "" : `<div class="ekw-item-head"><h3>Decide ${esc(one.item)} <small>${esc(one.question.title)}</small></h3><span class="ekw-push"></span><span class="ekw-place"></span>${turn(-1, "k", "◂ Previous <kbd>K</kbd>")}${turn(1, "j", "Next <kbd>J</kbd> ▸")}</div>
      <div class="ekw-item-body">${items.inputs(one.inputs, one.forms, true)}<div class="ekw-judges">${one.said.map(([who, code, text, note]) => `<article><b>${esc(who)}</b> <span class="ekw-human">${esc(code)}</span> ${text === code ? "" : esc(text)}${note ? `<p>“${esc(note)}”</p>` : ""}</article>`).join("")}</div>
      <fieldset><legend>Your decision <small>kept as a label of “${esc(form().decider)}”; the other labels stay as they are</small></legend>${one.question.text ? quiet(esc(one.question.text)) : ""}${levels(one.question, 0, answers[0])}</fieldset>${commentField("Reason, so that the rubric can say it next time")}<div class="ekw-line ekw-verdict"></div></div>`);
    items.measureFolds();
  }
  const drawDecision = () => panel().item && put(".ekw-verdict", `${saveButton()}<span class="ekw-dim ekw-saving" role="status"></span><span class="ekw-push"></span>${undoButton(`Undo ${esc(form().undo)}`)}`);
  function drawList() {
    const { rows, names } = form(), all = chosen(), n_pages = Math.ceil(all.length / 25) || 1, chips = ["", ...new Set(rows.map((one) => one.criterion))], size = (name) => rows.filter((one) => !name || one.criterion === name).length;
    page = Math.min(page, n_pages - 1);
    if (panel().item) put(".ekw-place", `${all.findIndex(isOn) + 1 || "–"} of ${all.length}`);
    // the labels of many people stand in one column, so that the text of the item keeps its room
    const many = names.length > 4, all_said = (one) => `<td class="ekw-all">${one.labels.map((label, at) => (label === null ? "" : `<span>${esc(names[at])} <b class="ekw-human">${esc(label)}</b></span>`)).join("")}</td>${cell(one.decision)}`;
    const cell = (label) => `<td class="ekw-w">${label === null ? "" : `<span class="ekw-human">${esc(label)}</span>`}</td>`;
    const lines = all.slice(page * 25, page * 25 + 25).map((one) => `<tr ${isOn(one) ? 'aria-current="true"' : ""}><th scope="row" class="ekw-t"><div class="ekw-two"><span class="ekw-id">${esc(one.item)}</span>${esc(one.text)}</div></th><td class="ekw-c">${esc(one.criterion)}</td>${many ? all_said(one) : [...one.labels, one.decision].map(cell).join("")}<td class="ekw-b"><button data-do="open" data-key="open ${esc(one.item)} ${esc(one.criterion)}" data-item="${esc(one.item)}" data-name="${esc(one.criterion)}" aria-label="Decide ${esc(one.item)}: ${esc(one.criterion)}">${one.decision === null ? "Decide" : "Change"}</button></td></tr>`).join("");
    put(".ekw-differ", rows.length ? `<h3>Items on which they differ</h3><div class="ekw-filters" role="group" aria-label="Which differences">${chips.map((name) => `<button data-do="only" data-key="only ${esc(name)}" data-name="${esc(name)}" aria-pressed="${only === name}">${esc(name || "All")} ${size(name)}</button>`).join("")}<button data-do="undecided" data-key="undecided" aria-pressed="${undecided}">not decided ${rows.filter((one) => one.decision === null).length}</button></div>
      <table class="ekw-tab ekw-diffs"><thead><tr><th scope="col" class="ekw-t">Item</th><th scope="col" class="ekw-c">Criterion</th>${many ? '<th scope="col" class="ekw-all">People</th>' : ""}${[...(many ? [] : names), "Decision"].map((name) => `<th scope="col" class="ekw-w">${esc(name)}</th>`).join("")}<th scope="col" class="ekw-b"><span class="ekw-sr">Decide</span></th></tr></thead><tbody>${lines}</tbody></table><div class="ekw-foot"><span role="status">${counted(all.length, "difference")}</span><span class="ekw-push"></span>${ctx.pager({ page, n_pages })}</div>` : "");
  }

  // -- input
  const ACTIONS = {
    save: () => ask(lead() ? { do: "decide", item: panel().item, criterion: panel().criterion, label: answers[0], comment, next_item: nextOpen().item, next_criterion: nextOpen().criterion } : { do: "save", form: form().form, answers, comment }),
    skip: () => { skipping = !skipping; drawFoot(); },
    why: (one) => {
      const reason = REASONS[+one.dataset.key.slice(4)];
      if (reason === REASONS.at(-1) && !comment.trim()) return saving("“Other” needs a comment: write it, then press Esc and 4"), ACTIONS.comment();
      drafts[form().form] = { comment };
      ask({ do: "skip", form: form().form, reason: [reason.split(":")[0], comment].filter(Boolean).join(": ") });
    },
    leave: () => leave(""), comment: () => { const field = find("[data-comment]"); field.focus({ preventScroll: true }); field.scrollIntoView({ block: "nearest" }); },
    undo: () => ask({ do: "undo", form: form().undo }), dismiss: () => { send({ do: "dismiss" }); ctx.drawAlert(); }, fold: items.fold,
    step: (one) => step(+one.dataset.step), open: (one) => ask({ do: "open", item: one.dataset.item, criterion: one.dataset.name }),
    only: (one) => show({ only: one.dataset.name }), undecided: () => show({ undecided: !undecided }), turn: (one) => show({ page: page + +one.dataset.step }),
  };
  listen(ctx, ACTIONS, ({ target }) => { "earlier" in target.dataset ? leave(target.value) : "comment" in target.dataset ? (comment = target.value) : "number" in target.dataset ? typed(target) : answer(+target.dataset.question, target.value, true); return true; });
  function typed(field) {
    const text = field.value.trim(), { ends } = lead() ? question() : form().questions[+field.dataset.question], isGood = isNumber(text, ends);
    field.setAttribute("aria-invalid", !!text && !isGood);
    field.closest("fieldset").querySelector(".ekw-wrong").textContent = text && !isGood ? `This is no number from ${+ends[0]} to ${+ends[1]}. Write it with a point: 8.5` : "";
    answer(+field.dataset.question, isGood ? text : "", false);
  }
  function enter() { // the number that the frame asks for; keys that choose levels are for no field
    const field = find(`[data-number][data-key="q${lead() ? 0 : here} 0"]`);
    (field || find(lead() ? ".ekw-decide" : ".ekw-read")).focus({ preventScroll: true });
    field?.select();
  }
  root.addEventListener("focusin", ({ target }) => { here = +(target.closest(".ekw-answers fieldset")?.dataset.k ?? here); frame(); });
  root.addEventListener("click", (event) => { if (event.target.closest(".ekw-opt") && isBusy()) event.preventDefault(); });
  function pressed(event) { // wherever the focus is, if the page is nothing but this widget
    const path = event.composedPath(), [target] = path, { key } = event, alone = target === document.body && !("jpThemeLight" in document.body.dataset);
    if ((!path.includes(root) && !alone) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.stopPropagation();
    const typing = target.matches?.("textarea, select, [data-number]"), digit = /^\d$/.test(key), one = question(), k = lead() ? 0 : here, at = digit ? one?.levels.findIndex(([, , its]) => its === key) : -1;
    const click = (name) => { const button = find(`[data-do="${name}"]`); if (button && button.ariaDisabled !== "true") ACTIONS[name](button); };
    if (waiting && !typing && key !== "Tab") isBusy();
    else if (typing && key === "Escape") find(lead() ? ".ekw-decide" : ".ekw-read").focus({ preventScroll: true });
    else if (typing && (key !== "Enter" || !target.matches("[data-number]"))) return;
    else if (digit && skipping) find(`[data-key="why ${key - 1}"]`)?.click();
    else if (digit && one?.ends) return enter(); // and the digit is typed there
    else if (at >= 0) { find(`[data-key="q${k} ${at}"]`).checked = true; answer(k, one.levels[at][0], true); }
    else if (key === "Enter" && !target.closest("button, summary")) lead() || !open() ? click("save") : (toOpen(), typing && enter());
    else if (key === "s" || (key === "Escape" && skipping)) click("skip");
    else if (key === "u") click("undo");
    else if (key === "e" && find("[data-earlier]")) find("[data-earlier]").focus();
    else if (key === "Escape" && form().answered) click("leave");
    else if (lead() && "jk".includes(key)) step(key === "j" ? 1 : -1);
    else if (key === "c" && find("[data-comment]")) ACTIONS.comment();
    else return;
    event.preventDefault();
  }
  document.addEventListener("keydown", pressed, true);
  const poll = setInterval(() => { if (lead() && !document.hidden && root.isConnected) send({ do: "look" }); }, 10000);
  function draw() {
    if (form().answers === waiting) waiting = "";
    lock();
    ctx.drawAlert(); // Python answers, so no more "does not answer"
    root.classList.toggle("ekw-leads", lead());
    (lead() ? drawLead : drawForm)();
  }
  const end = drawOnChange(ctx, model, { form: [draw], alert: [ctx.drawAlert] });
  return () => { clearInterval(poll); document.removeEventListener("keydown", pressed, true); items.end(); end(); };
}
export default { render: renderLabels };
