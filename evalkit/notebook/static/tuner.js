// The screen of the tuner. It draws the model's traits and sends back what the user does; every figure comes from Python,
// and every text of a model or data set goes through esc(). The other files of this folder are put before this one.
const SKELETON = `
<div class="ekw-alert" role="alert"></div>
<section class="ekw-queue" data-stay aria-label="Label queue" tabindex="-1"></section>
<section class="ekw-top" aria-label="Figures"></section>
<div class="ekw-notices" role="status" data-keep></div>
<section class="ekw-notes" aria-label="Notes on the labels"></section>
<div class="ekw-main">
  <section class="ekw-left" aria-label="Rubric and jury">
    <div class="ekw-run"></div>
    <div class="ekw-editor"></div>
    <details class="ekw-box" data-box="jury"><summary></summary><div class="ekw-jury" data-stay></div></details>
    <details class="ekw-box" data-box="suggestions"><summary></summary><div class="ekw-suggestions" data-stay></div></details>
    <details class="ekw-box" data-box="versions"><summary></summary><div class="ekw-versions" data-stay></div></details>
  </section>
  <section class="ekw-right" aria-label="Items">
    <div class="ekw-list"><div class="ekw-matrix"></div><div class="ekw-rows">
      <div class="ekw-tools" role="toolbar" aria-label="Which items"></div>
      <div class="ekw-scroll"></div><div class="ekw-foot"></div></div></div>
    <div class="ekw-item" data-stay role="region" aria-label="Item" tabindex="-1"></div>
  </section>
</div>`;

function render({ model, el }) {
  const ctx = createWidget(model, el, "ekw", SKELETON), { root, find, get, ask, drawAlert } = ctx;
  const figures = figuresPart(ctx), editor = editorPart(ctx), items = itemsPart(ctx), runs = runsPart(ctx), queue = queuePart(ctx, items);

  const send = (message) => { editor.flush(); ctx.send(message); }; // text typed before is sent before

  function drawCode() {
    const text = model.get("code"), box = find(".ekw-codetext");
    if (!text || !box) return;
    box.hidden = false;
    box.textContent = text;
    // without a secure page this fails: copy from the box
    navigator.clipboard?.writeText(text).then(() => { find(".ekw-copied").textContent = "copied"; }).catch(() => {});
  }

  // rows that come into view stop below the strip
  new ResizeObserver(() => root.style.setProperty("--top", `${find(".ekw-top").offsetHeight}px`)).observe(find(".ekw-top"));

  // -- actions
  let adding = ""; // the judge that Python has not answered yet
  const added = () => { adding = ""; };
  function jury() {
    const active = {};
    root.querySelectorAll('[data-jury="on"]').forEach((box) => {
      if (box.checked) active[box.dataset.name] = Number([...root.querySelectorAll('[data-jury="weight"]')].find((one) => one.dataset.name === box.dataset.name).value) || 0;
    });
    const value = (name) => find(`[data-jury="${name}"]`).value;
    send({ do: "jury", active, samples: Number(value("samples")) || 0, aggregate: value("aggregate"), budget_usd: value("budget"), id: runs.juryMessage() });
  }
  // the label is for the criterion on screen, even if the kernel shows another by then
  const label = (item_id, code) => send({ do: "label", item_id, criterion: get("item").criterion, label: code });
  function show(version) {
    const { current, against } = get("figures");
    if (version !== current) send({ do: "versions", current: version, against: version === against ? current : against });
  }
  function compare(version) { // a second time: with nothing
    const { current, against } = get("figures");
    if (version !== current) send({ do: "versions", current, against: version === against ? "" : version });
  }
  const ACTIONS = {
    run: () => send({ do: "run" }),
    stop: () => send({ do: "stop" }),
    measure: () => send({ do: "measure" }),
    undo_edit: () => send({ do: "undo_edit" }),
    redo_edit: () => send({ do: "redo_edit" }),
    version: ({ dataset: { version } }, event) => (event.shiftKey ? compare(version) : show(version)),
    compare: (one) => compare(one.dataset.version),
    save: () => send({ do: "save" }),
    held_out: () => send({ do: "held_out", seen: get("figures").held_out?.looks || "" }),
    dismiss: () => send({ do: "dismiss" }),
    criterion: (one) => { ctx.resetQuery(); send({ do: "criterion", name: one.dataset.name }); },
    ...editor.actions,
    ...queue.actions,
    suggest: () => send({ do: "suggest", judge: find("[data-suggester]").value }),
    improve: () => send({ do: "improve", judge: find("[data-suggester]").value }),
    try: (one) => send({ do: "try", number: Number(one.dataset.number) }),
    showtry: (one) => send({ do: "versions", current: one.dataset.version, against: one.dataset.base }),
    takeup: (one) => send({ do: "take", key: one.dataset.version }),
    judge: () => {
      const judge = find("[data-new]").value.trim();
      if (!judge || judge === adding) return; // a second click: a second judge of that name would be an error
      adding = judge;
      send({ do: "judge", judge, server: find("[data-server]")?.value || "" });
    },
    take: () => send({ do: "take", key: get("figures").current }),
    code: () => { send({ do: "code" }); drawCode(); }, // the same code is no change, so it is copied here
    cell: (one) => {
      const cell = get("figures").cells[one.dataset.cell], same = one.getAttribute("aria-pressed") === "true";
      ask({ cell: same ? null : [cell.human, cell.jury, cell.verdict] });
    },
    uncell: () => ask({ cell: null }),
    filter: (one) => ask({ filter: one.getAttribute("aria-pressed") === "true" ? "all" : one.dataset.name }),
    sort: (one) => { const query = ctx.query(), name = one.dataset.name; ask({ sort: name, down: query.sort === name ? !query.down : name !== "item" }); },
    turn: (one) => ctx.turn(Number(one.dataset.step)),
    select: (one) => { one.focus(); rows.choose(one.dataset.id); },
    label: (one) => label(get("item").item_id, one.dataset.label),
    unlabel: () => label(get("item").item_id, null),
  };
  const early = new Map(); // labels typed before their item is on screen
  function labelEarly() {
    const { item_id, codes, keys } = get("item"), code = codes?.[keys.indexOf(early.get(item_id))];
    early.delete(item_id);
    if (code !== undefined) label(item_id, code);
  }
  const rows = rowsOf(ctx, "id", (id) => { ctx.wanted = id; send({ do: "select", item_id: id }); }, (row, event) => {
    const item = get("item");
    if (event.key.length > 1 || event.key === " " || event.ctrlKey || event.metaKey || event.altKey) return false;
    if (item.item_id === row.dataset.id) {
      const code = item.codes[item.keys.indexOf(event.key)];
      if (code === undefined) return false;
      label(row.dataset.id, code);
    } else if (rows.chosen() === row.dataset.id && !get("figures").browse) { // typed before the item is on screen
      early.set(row.dataset.id, event.key);
      rows.hurry();
    }
    return true;
  });
  listen(ctx, ACTIONS, (event) => {
    if (event.target.matches("[data-new]") && model.get("alert")) send({ do: "dismiss", action: "judge" }); // another name: the error is about the last one
    return event.target.closest(".ekw-fields") && (editor.typed(event), true);
  });
  root.addEventListener("change", (event) => {
    const one = event.target;
    if (one.dataset.jury) jury();
    else if (one.dataset.note) send({ do: "note", key: one.dataset.note, note: one.value });
    else if (one.matches("[data-annotator]")) {
      if (!one.value.trim()) one.value = get("figures").annotator; // a blank name keeps the last annotator
      one.dataset.sent = one.value;
      send({ do: "annotator", name: one.value });
    }
  });
  root.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z" && !event.target.matches("input, textarea") && !root.matches(".ekw-labelling")) {
      event.preventDefault();
      return ACTIONS[event.shiftKey ? "redo_edit" : "undo_edit"]();
    }
    if (queue.pressed(event) || rows.pressed(event)) return;
    if (event.key === "Enter" && event.target.matches("[data-new]")) ACTIONS.judge();
    else if (event.key === "Enter" && event.target.matches("[data-suggester]")) find('[data-do="suggest"]').click();
  });

  const { drawTop, drawMatrix } = figures, { drawRows, drawItem, drawNotices, mark, reveal } = items, { drawRun, drawJury, drawVersions, drawSuggestions, disableSuggestions } = runs;
  const draws = {
    draft: [editor.drawDraft, drawRun], jury: [drawJury, added], status: [drawRun, disableSuggestions, drawTop], price: [drawTop], alert: [drawAlert, added], code: [drawCode],
    item: [drawItem, mark, reveal, labelEarly], suggestions: [drawSuggestions], figures: [drawTop, drawMatrix, drawVersions, drawItem, drawSuggestions],
    page: [drawRows, drawMatrix, drawItem, drawSuggestions, drawNotices], notices: [drawNotices], queue: [queue.drawQueue],
  };
  return drawOnChange(ctx, model, draws);
}
export default { render: (context) => startOrTuner(context, render) };
