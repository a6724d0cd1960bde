// The tuner's view. It draws what the model's traits hold and sends back what a person does; every figure comes from
// Python, and every text of a model or data set goes through esc(). The other files of this folder stand before this one.
const SKELETON = `
<div class="ekw-alert" role="alert"></div>
<section class="ekw-top" aria-label="Figures"></section>
<div class="ekw-main">
  <section class="ekw-left" aria-label="Rubric and jury">
    <div class="ekw-run"></div>
    <div class="ekw-editor"></div>
    <details class="ekw-box" data-box="jury"><summary></summary><div class="ekw-jury" data-stay></div></details>
    <details class="ekw-box" data-box="advice"><summary></summary><div class="ekw-advice" data-stay></div></details>
    <details class="ekw-box" data-box="versions"><summary></summary><div class="ekw-versions"></div></details>
  </section>
  <section class="ekw-right" aria-label="Items">
    <div class="ekw-list"><div class="ekw-matrix"></div><div class="ekw-rows">
      <div class="ekw-tools" role="toolbar" aria-label="Which items"></div>
      <div class="ekw-scroll"></div><div class="ekw-foot"></div></div></div>
    <div class="ekw-item" data-stay role="region" aria-label="Item" tabindex="-1"></div>
  </section>
</div>`;

function render({ model, el }) {
  const ctx = stage(model, el, "ekw", SKELETON), { root, find, get, ask, drawAlert } = ctx;
  const figures = figuresPart(ctx), editor = editorPart(ctx), items = itemsPart(ctx), runs = runsPart(ctx);

  const send = (message) => { editor.flush(); ctx.send(message); }; // what was typed before comes before

  function drawCode() {
    const text = model.get("code"), box = find(".ekw-codetext");
    if (!text || !box) return;
    box.hidden = false;
    box.textContent = text;
    navigator.clipboard?.writeText(text).catch(() => {}); // refused without a secure page: it can be copied from the box
  }

  // -- what a person does
  let adding = ""; // the judge that is not answered yet
  const added = () => { adding = ""; };
  function jury() {
    const active = {};
    root.querySelectorAll('[data-jury="on"]').forEach((box) => {
      if (box.checked) active[box.dataset.name] = Number([...root.querySelectorAll('[data-jury="weight"]')].find((one) => one.dataset.name === box.dataset.name).value) || 0;
    });
    const value = (name) => find(`[data-jury="${name}"]`).value;
    send({ do: "jury", active, samples: Number(value("samples")) || 0, aggregate: value("aggregate"), budget_usd: value("budget"), said: runs.saidJury() });
  }
  // what is labelled is what is on screen, even where the kernel is further by then
  const label = (item_id, code) => send({ do: "label", item_id, criterion: get("item").criterion, label: code });
  const ACTIONS = {
    run: () => send({ do: "run" }),
    stop: () => send({ do: "stop" }),
    save: () => send({ do: "save" }),
    held_out: () => send({ do: "held_out", seen: get("board").held_out?.looks || "" }),
    dismiss: () => send({ do: "dismiss" }),
    criterion: (one) => { ctx.afresh(); send({ do: "criterion", name: one.dataset.name }); },
    ...editor.actions,
    suggest: () => send({ do: "suggest", judge: find("[data-adviser]").value }),
    try: (one) => send({ do: "try", number: Number(one.dataset.number) }),
    showtry: (one) => send({ do: "versions", current: one.dataset.version, against: get("advice").base }),
    takeup: (one) => send({ do: "take", key: one.dataset.version }),
    judge: () => {
      const judge = find("[data-new]").value.trim();
      if (!judge || judge === adding) return; // pressed twice: one more of that name would be refused
      adding = judge;
      send({ do: "judge", judge });
    },
    take: () => send({ do: "take", key: get("board").current }),
    code: () => send({ do: "code" }),
    cell: (one) => {
      const cell = get("board").cells[one.dataset.cell], same = one.getAttribute("aria-pressed") === "true";
      ask({ cell: same ? null : [cell.human, cell.jury, cell.verdict] });
    },
    uncell: () => ask({ cell: null }),
    filter: (one) => ask({ filter: one.dataset.name }),
    sort: (one) => { const query = ctx.query(), name = one.dataset.name; ask({ sort: name, down: query.sort === name ? !query.down : name !== "item" }); },
    turn: (one) => ctx.turn(Number(one.dataset.step)),
    select: (one) => { one.focus(); rows.choose(one.dataset.id); },
    label: (one) => label(get("item").item_id, one.dataset.label),
    unlabel: () => label(get("item").item_id, null),
  };
  const early = new Map(); // labels for items that are still to come
  function labelEarly() {
    const { item_id, codes } = get("item"), code = early.get(item_id);
    early.delete(item_id);
    if (code !== undefined && codes.includes(code)) label(item_id, code);
  }
  const rows = rowsOf(ctx, "id", (id) => { ctx.wanted = id; send({ do: "select", item_id: id }); }, (row, event) => {
    const item = get("item");
    if (event.key.length > 1 || event.key === " " || event.ctrlKey || event.metaKey || event.altKey) return false;
    if (item.item_id === row.dataset.id) {
      if (!item.codes.includes(event.key)) return false;
      label(row.dataset.id, event.key);
    } else if (rows.chosen() === row.dataset.id && !get("board").browse) { // quicker than its item
      early.set(row.dataset.id, event.key);
      rows.hurry();
    }
    return true;
  });
  listen(ctx, ACTIONS, (event) => event.target.closest(".ekw-fields") && (editor.typed(event), true));
  root.addEventListener("change", (event) => {
    const one = event.target;
    if (one.dataset.jury) jury();
    else if (one.dataset.version) send({ do: "versions", current: find('[data-version="current"]').value, against: find('[data-version="against"]').value });
    else if (one.matches("[data-annotator]")) {
      if (!one.value.trim()) one.value = get("board").annotator; // who labels is who labelled last
      one.dataset.told = one.value;
      send({ do: "annotator", name: one.value });
    }
  });
  root.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (rows.pressed(event)) return;
    if (event.key === "Enter" && event.target.matches("[data-new]")) ACTIONS.judge();
    else if (event.key === "Enter" && event.target.matches("[data-adviser]")) find('[data-do="suggest"]').click();
  });

  const { drawTop, drawMatrix } = figures, { drawRows, drawItem, mark, reveal } = items, { drawRun, drawJury, drawVersions, drawAdvice, busyAdvice } = runs;
  const draws = {
    draft: [editor.drawDraft, drawRun], jury: [drawJury, added], status: [drawRun, busyAdvice], alert: [drawAlert, added], code: [drawCode],
    item: [drawItem, mark, reveal, labelEarly], advice: [drawAdvice], board: [drawTop, drawMatrix, drawVersions, drawItem, drawAdvice],
    page: [drawRows, drawMatrix, drawItem, drawAdvice],
  };
  return follow(ctx, model, draws);
}
export default { render };
