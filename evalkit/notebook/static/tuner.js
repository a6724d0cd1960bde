// The screen of the tuner. It draws the model's traits and sends back what the user does; every figure comes from Python,
// and every text of a model or data set goes through esc(). The other files of this folder are put before this one.
const SKELETON = `
<div class="ekw-skips"><button class="ekw-sr" data-do="to" data-to=".ekw-rows">To the items</button><button class="ekw-sr" data-do="to" data-to=".ekw-edit">To the rubric</button></div>
<div class="ekw-alert" role="alert"></div>
<section class="ekw-card" data-stay data-keep aria-label="Your data"></section>
<section class="ekw-queue" data-stay aria-label="Label queue" tabindex="-1"></section>
<section class="ekw-top" aria-label="Figures"><div class="ekw-decision" role="status"></div><div class="ekw-run"></div><div class="ekw-facts"></div></section>
<div class="ekw-done" role="status"></div>
<section class="ekw-notes" aria-label="Why, and notes"><div class="ekw-why"></div><div class="ekw-notices" role="status" data-keep></div><div class="ekw-held"></div><dl class="ekw-tiles"></dl></section>
<div class="ekw-grid">
  <section class="ekw-item" data-stay aria-label="Item" tabindex="-1"></section>
  <section class="ekw-matrix" aria-label="Where jury and people differ"></section>
  <section class="ekw-edit" aria-label="Rubric" tabindex="-1"><div class="ekw-tabs" role="group" aria-label="Criterion"></div><div class="ekw-editor"></div>
    <div class="ekw-more"><details class="ekw-box" data-box="jury"><summary></summary><div class="ekw-jury" data-stay></div></details>
    <details class="ekw-box" data-box="suggestions"><summary></summary><div class="ekw-suggestions" data-stay data-keep></div></details>
    <details class="ekw-box" data-box="versions"><summary></summary><div class="ekw-versions" data-stay></div></details></div></section>
  <section class="ekw-rows" aria-label="Items" tabindex="-1">
    <div class="ekw-tools"><div class="ekw-filters" role="toolbar" aria-label="Which items"></div><div class="ekw-search"></div><div class="ekw-choose" data-keep></div></div>
    <div class="ekw-list"></div><div class="ekw-foot"></div></section>
</div>`;

function render({ model, el }) {
  const ctx = createWidget(model, el, "ekw", SKELETON), { root, find, get, ask, drawAlert } = ctx;
  const figures = figuresPart(ctx), editor = editorPart(ctx), items = itemsPart(ctx), runs = runsPart(ctx), queue = queuePart(ctx, items), start = startPart(ctx);

  const send = (message) => { editor.flush(); ctx.send(message); }; // text typed before is sent before

  function drawCode() {
    const text = model.get("code"), box = find(".ekw-codetext");
    if (!text || !box) return;
    box.hidden = false;
    box.textContent = text;
    copyText(text, () => { find(".ekw-copied").textContent = "copied"; });
  }

  // What scrolls the tuner: the notebook's panel, else the window.
  function scrollerHeight() {
    for (let one = root.parentElement; one && one !== document.body; one = one.parentElement) {
      if (/auto|scroll/.test(getComputedStyle(one).overflowY) && one.scrollHeight > one.clientHeight + 1) return Math.min(one.clientHeight, innerHeight);
    }
    return innerHeight;
  }
  // rows that come into view stop below the strip, where it stays; the rubric beside the text is as high as there is room
  const strip = find(".ekw-top"), box = find(".ekw-alert"), set = (name, height) => root.style.setProperty(name, `${height}px`);
  function measureStrip() {
    set("--alert", box.offsetHeight);
    set("--top", box.offsetHeight + (getComputedStyle(strip).position === "sticky" ? strip.offsetHeight : 0));
    set("--room", scrollerHeight());
  }
  const heights = new ResizeObserver(measureStrip);
  [strip, root, box].forEach((one) => heights.observe(one));
  window.addEventListener("resize", measureStrip);

  // -- actions
  let adding = ""; // the judge that Python has not answered yet
  const added = () => { adding = ""; };
  function jury() {
    const fields = (name) => [...root.querySelectorAll(`[data-jury="${name}"]`)], value = (name) => fields(name)[0].value;
    const isOn = fields("on").map((box) => box.checked), weights = fields("weight").map((one) => [one.dataset.name, Number(one.value) || 0]);
    const active = Object.fromEntries(weights.filter((one, at) => isOn[at]));
    send({ do: "jury", active, samples: Number(value("samples")) || 0, aggregate: value("aggregate"), budget_usd: value("budget"), id: runs.juryMessage() });
  }
  // the label is for the criterion on screen, even if the kernel shows another by then
  const label = (item_id, code) => send({ do: "label", item_id, criterion: get("item").criterion, label: code });
  // Only the list that was used: what the other one shows may be older than a choice that is not answered yet.
  const pick = (list) => send({ do: "versions", [list.dataset.pick]: list.value });
  function chooseCriterion(name) {
    ctx.resetQuery();
    send({ do: "criterion", name });
    editor.show(name);
  }
  // their result is written below the strip
  const saying = ["save", "freeze", "export"].map((name) => [name, () => { runs.expectWords(); send({ do: name }); }]);
  const ACTIONS = {
    ...Object.fromEntries(saying),
    stop: (one, event) => { if (event.detail < 2) send({ do: "stop" }); }, // it stands where Run was: a double click would end what it began
    label_changed: () => send({ do: "queue", open: true, source: "changed", blind: true }),
    read_changed: () => { items.openFirst(); ask({ filter: "changed" }); },
    why: () => { root.classList.toggle("ekw-noted"); figures.drawTop(); },
    md: items.toggleMarkdown,
    last_turn: (one) => one.closest("section").querySelector(".ekw-turn:last-child").scrollIntoView({ block: "nearest" }),
    own: ({ dataset: { name, value } }) => ask({ column: [name, value] }),
    uncolumn: () => ask({ column: null }),
    whole: editor.toggleWhole,
    limit: () => { find('[data-box="jury"]').open = true; find('[data-jury="budget"]').focus(); },
    held_out: () => send({ do: "held_out", seen: get("figures").held_out?.looks || "" }),
    criterion: (one) => chooseCriterion(one.dataset.name),
    to: (one) => { const part = find(one.dataset.to); (part.querySelector('tr[tabindex="0"]') || part).focus(); part.scrollIntoView({ block: "nearest" }); },
    step: (one) => items.step(Number(one.dataset.step)),
    close_item: items.close,
    fold: items.fold,
    ...editor.actions,
    ...queue.actions,
    ...start.actions,
    suggest: () => send({ do: "suggest", judge: find("[data-suggester]").value }),
    try: (one) => send({ do: "try", number: Number(one.dataset.number) }),
    showtry: (one) => send({ do: "versions", current: one.dataset.version, against: one.dataset.base }),
    judge: () => {
      const judge = find("[data-new]").value.trim();
      if (!judge || judge === adding) return; // a second click: a second judge of that name would be an error
      adding = judge;
      runs.expectWords();
      send({ do: "judge", judge, server: find("[data-server]")?.value || "" });
    },
    take: (one) => send({ do: "take", key: one.dataset.version }),
    code: () => { send({ do: "code" }); drawCode(); }, // the same code is no change, so it is copied here
    cell: (one) => {
      const cell = get("figures").cells[one.dataset.cell], same = one.getAttribute("aria-pressed") === "true";
      ask({ cell: same ? null : [cell.human, cell.jury, cell.verdict] });
    },
    uncell: () => ask({ cell: null }),
    filter: (one) => ask({ filter: one.getAttribute("aria-pressed") === "true" ? "all" : one.dataset.name }),
    select: (one) => { one.focus({ preventScroll: true }); items.open(one.dataset.id); },
    label: (one) => label(get("item").item_id, one.dataset.label ?? null), // none: it is taken back
  };
  const rows = rowsOf(ctx, "id", items.open);
  // J, K: the next and the previous item; E: to the level that the jury chose; M: with or without marks for headings and lists
  const KEYS = { j: () => items.step(1), k: () => items.step(-1), e: editor.toLevel, m: items.toggleMarkdown };
  // The key of a level labels the row or the open item that has the focus, for the criterion on screen.
  function pressedKey(event) {
    const { key, target } = event, row = target.dataset.id, item_id = row ?? (target.closest(".ekw-item") && get("item").item_id);
    if (event.ctrlKey || event.metaKey || event.altKey || target.matches("input, select, textarea")) return false;
    const [code] = (row === undefined ? get("item").levels : get("page").levels)?.find((level) => level[2] === key) || [];
    if (item_id && code !== undefined && !get("figures").browse) send({ do: "label", item_id, criterion: get("figures").criterion, label: code });
    else if (KEYS[key] && get("item").item_id) KEYS[key]();
    else return false;
    event.preventDefault();
    return true;
  }
  const CHANGES = {
    ...items.changes, ...queue.changes, ...start.changes,
    jury, pick,
    criterion: (one) => chooseCriterion(one.value),
    suggester: runs.drawSuggestions, // the price is of this judge
    note: (one) => send({ do: "note", key: one.dataset.note, note: one.value }),
    annotator: (one) => {
      if (!one.value.trim()) one.value = get("figures").annotator; // a blank name keeps the last annotator
      one.dataset.sent = one.value;
      send({ do: "annotator", name: one.value });
    },
  };
  listen({ ...ctx, send }, ACTIONS, (event) => {
    if (event.target.matches("[data-new]") && model.get("alert")) send({ do: "dismiss", action: "judge" }); // another name: the error is about the last one
    return event.target.closest(".ekw-fields") && (editor.typed(event), true);
  }, CHANGES);
  root.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z" && !event.target.matches("input, textarea") && !root.matches(".ekw-labelling")) {
      event.preventDefault();
      return send({ do: event.shiftKey ? "redo_edit" : "undo_edit" });
    }
    if ((event.ctrlKey || event.metaKey) && event.key === "Enter" && !root.matches(".ekw-labelling, .ekw-browse")) return event.preventDefault(), find('[data-do="run"]')?.click();
    if (event.key === "Escape" && event.target.closest(".ekw-edit") && get("item").item_id) return find(".ekw-item").focus({ preventScroll: true });
    if (queue.pressed(event) || pressedKey(event)) return;
    if (event.key === "Escape" && event.target.closest(".ekw-item, tr[data-id]") && items.close()) return;
    if (rows(event)) return;
    if (event.key === "Enter" && event.target.matches("[data-new]")) ACTIONS.judge();
  });

  const { drawTop, drawMatrix } = figures, { drawRows, drawItem, drawNotices, mark, reveal } = items, { drawTags } = editor, { drawRun, drawJury, drawVersions, drawSuggestions } = runs;
  const draws = {
    card: [start.drawCard],
    draft: [editor.drawDraft, drawTags, drawRun], jury: [drawJury, added], status: [drawRun, drawSuggestions, drawTop, drawNotices, start.drawCard], price: [drawTop, drawRun], alert: [drawAlert, added], code: [drawCode],
    item: [drawItem, mark, drawTags, reveal], suggestions: [drawSuggestions], figures: [drawTop, drawRun, drawMatrix, drawVersions, drawItem, drawTags, drawSuggestions],
    page: [drawRows, mark, drawTop, drawMatrix, drawItem, drawSuggestions, drawNotices], notices: [drawNotices, drawTop], queue: [queue.drawQueue],
  };
  const end = drawOnChange(ctx, model, draws);
  return () => { heights.disconnect(); window.removeEventListener("resize", measureStrip); items.end(); end(); };
}
export default { render };
