// The tuner's view. It draws what the model's traits hold and sends back what a person does; every figure comes from
// Python, and every text of a model or data set goes through esc(). The other files of this folder stand before this one.
const SKELETON = `
<div class="ekw-alert" role="alert"></div>
<section class="ekw-top" aria-label="Figures"></section>
<div class="ekw-main">
  <section class="ekw-left" aria-label="Rubric and jury">
    <div class="ekw-run"></div>
    <div class="ekw-editor"></div>
    <details class="ekw-box" data-box="jury"><summary></summary><div class="ekw-jury"></div></details>
    <details class="ekw-box" data-box="advice"><summary></summary><div class="ekw-advice"></div></details>
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
  let choosing = null;

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

  const ctx = { root, find, put, get, send, id: `ekw-${Math.random().toString(36).slice(2, 10)}` };
  const figures = figuresPart(ctx), editor = editorPart(ctx), items = itemsPart(ctx), runs = runsPart(ctx);

  function ask(changes) {
    send({ do: "query", query: { ...get("page").query, page: 0, ...changes } });
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
    run: () => { editor.flush(); send({ do: "run" }); },
    stop: () => send({ do: "stop" }),
    save: () => { editor.flush(); send({ do: "save" }); },
    held_out: () => send({ do: "held_out" }),
    dismiss: () => send({ do: "dismiss" }),
    criterion: (one) => send({ do: "criterion", name: one.dataset.name }),
    ...editor.actions,
    suggest: () => send({ do: "suggest", judge: find("[data-adviser]").value }),
    try: (one) => send({ do: "try", number: Number(one.dataset.number) }),
    showtry: (one) => send({ do: "versions", current: one.dataset.version, against: get("advice").base }),
    takeup: (one) => send({ do: "take", key: one.dataset.version }),
    judge: () => { const box = find("[data-new]"); if (box.value.trim()) send({ do: "judge", judge: box.value.trim() }); },
    take: () => send({ do: "take", key: get("board").current }),
    code: () => send({ do: "code" }),
    cell: (one) => {
      const cell = get("board").cells[one.dataset.cell], same = one.getAttribute("aria-pressed") === "true";
      ask({ cell: same ? null : [cell.human, cell.jury, cell.verdict] });
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
    ctx.wanted = id;
    choosing = setTimeout(() => send({ do: "select", item_id: id }), 60); // arrow keys held down ask once
  }
  root.addEventListener("click", (event) => {
    const one = event.target.closest("[data-do]");
    if (one && root.contains(one) && !one.disabled) ACTIONS[one.dataset.do]?.(one);
  });
  let searching = null;
  root.addEventListener("input", (event) => {
    if (event.target.closest(".ekw-fields")) editor.typed(event);
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
      } else if (get("item").item_id === row.dataset.id && get("item").codes?.includes(event.key)) {
        send({ do: "label", item_id: row.dataset.id, label: event.key });
      } else if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        choose(row.dataset.id);
        find(".ekw-item").focus();
      }
    } else if (event.key === "Escape" && event.target.closest(".ekw-item")) {
      root.querySelector('tr[data-id][tabindex="0"]')?.focus();
    } else if (event.key === "Enter" && event.target.matches("[data-new]")) ACTIONS.judge();
    else if (event.key === "Enter" && event.target.matches("[data-adviser]")) find('[data-do="suggest"]').click();
  });

  const { drawTop, drawMatrix } = figures, { drawRows, drawItem, mark, reveal } = items, { drawRun, drawJury, drawVersions, drawAdvice, busyAdvice } = runs;
  const draws = {
    draft: [editor.drawDraft, drawRun], jury: [drawJury], status: [drawRun, busyAdvice], alert: [drawAlert], code: [drawCode],
    item: [drawItem, mark, reveal], advice: [drawAdvice], board: [drawTop, drawMatrix, drawVersions, drawItem, drawAdvice],
    page: [drawRows, drawMatrix, drawItem, drawAdvice],
  };
  const stops = Object.entries(draws).map(([name, all]) => {
    const draw = () => all.forEach((one) => one());
    model.on(`change:${name}`, draw);
    draw();
    return () => model.off(`change:${name}`, draw);
  });
  return () => stops.forEach((stop) => stop());
}
export default { render };
