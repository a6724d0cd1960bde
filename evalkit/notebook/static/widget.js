// What all widgets share: the root element, regions that are redrawn without losing the focus, rows that are selected by
// click or keyboard, and the traits that are drawn when they change.
function createWidget(model, el, kind, skeleton) {
  const root = document.createElement("div");
  root.className = kind;
  root.setAttribute("data-lm-suppress-shortcuts", "true"); // JupyterLab's shortcuts would take letters and arrows
  root.innerHTML = skeleton;
  el.appendChild(root);
  const find = (selector) => root.querySelector(selector);
  const focused = () => root.getRootNode().activeElement; // marimo draws in a shadow root, from outside of which only the host is seen
  // An action is about what is on screen: `get` returns a trait as it was drawn last.
  const drawn = new Map();
  const get = (name) => (drawn.has(name) ? drawn.get(name) : model.get(name)) || {};
  // After a restart of the kernel nothing receives messages: say so on the first click.
  function send(message) {
    try {
      model.send(message);
    } catch {
      showAlert("The kernel has stopped. Run the cell again; saved work is restored.");
    }
  }
  // The drawn value of a field, and its value now.
  function values(field) {
    if (field.type === "checkbox") return [field.defaultChecked, field.checked];
    if (field.tagName === "SELECT") return [[...field.options].find((one) => one.defaultSelected)?.value, field.value];
    return [field.defaultValue, field.value];
  }
  // The fields of a region, by key, that the user has changed and Python has not answered yet.
  function filled(region, answered) {
    const all = [...region.querySelectorAll("input[data-key], select[data-key]")].filter((one) => !(answered in one.dataset));
    const fields = all.map((one) => [one.dataset.key, values(one)]);
    return new Map(fields.filter(([, [drawn, now]]) => drawn !== now));
  }
  function refill(region, before, key) {
    region.querySelectorAll("input[data-key], select[data-key]").forEach((one) => {
      const [drawn, now] = before.get(one.dataset.key) || [];
      if (now === undefined || (values(one)[0] !== drawn && one.dataset.key !== key)) return; // Python has answered
      one[one.type === "checkbox" ? "checked" : "value"] = now;
    });
  }
  const last = new WeakMap(), later = new Map();
  const { free, end } = presses(root);
  // A half-typed number ("0.") can neither be read from its field nor be restored, and a redrawn field sends no change
  // event when it loses the focus: the region of such a field is redrawn when the field is left or has sent its value.
  function halfTyped(field) {
    if (field.type !== "number" && !("annotator" in field.dataset)) return false;
    return field.validity.badInput || field.value !== (field.dataset.sent ?? field.defaultValue);
  }
  root.addEventListener("keydown", (event) => event.stopPropagation());
  root.addEventListener("focusout", () => setTimeout(() => free(() => [...later].forEach(([selector, html]) => put(selector, html)))));
  // Redraw a region and restore the focus. With `data-keep` open details stay open; with `data-stay` the user's input stays
  // until Python answers; of fields with `data-<answered>` it has.
  function put(selector, html, answered = "") {
    const region = find(selector), held = focused(), stay = "stay" in region.dataset;
    if (stay && region.contains(held) && halfTyped(held)) return void later.set(selector, html);
    later.delete(selector);
    if (stay && !answered && last.get(region) === html) return;
    const key = region.contains(held) ? held.dataset.key : null;
    const range = key && "selectionStart" in held ? [held.selectionStart, held.selectionEnd] : null;
    const open = "keep" in region.dataset ? [...region.querySelectorAll("details")].map((one) => one.open) : [];
    const before = stay ? filled(region, answered) : new Map();
    region.innerHTML = html;
    if (html.search(TURNS) >= 0) showTurns(region);
    last.set(region, html);
    refill(region, before, key);
    if (open.length) region.querySelectorAll("details").forEach((one, at) => { if (at in open) one.open = open[at]; });
    if (!key) return;
    const again = region.querySelector(`[data-key="${CSS.escape(key)}"]`);
    if (!again) return;
    again.focus({ preventScroll: true });
    if (range && range[0] !== null) again.setSelectionRange(...range);
  }
  const drawAlert = () => showAlert(model.get("alert"));
  function showAlert(text) {
    put(".ekw-alert", text ? `<div>${text.split("\n").map((line) => `<p>${esc(line)}</p>`).join("")}</div><button data-do="dismiss" aria-label="Dismiss the message">×</button>` : "");
  }
  // A change of the query before the last one is answered starts from that query, not from the rows still shown.
  let asked = null;
  const query = () => asked || get("page").query || {};
  const answered = () => {
    const shown = model.get("page")?.query; // of another run there is none yet
    if (!shown || Object.entries(asked || {}).every(([name, value]) => JSON.stringify(value) === JSON.stringify(shown[name]))) asked = null;
  };
  model.on("change:page", answered);
  function ask(changes) {
    asked = { ...query(), page: 0, ...changes };
    send({ do: "query", query: asked });
    answered();
  }
  const resetQuery = () => { asked = {}; }; // another criterion shows all rows
  function turn(step) {
    const { page, n_pages } = get("page");
    ask({ page: Math.max(0, Math.min(n_pages - 1, (asked?.page ?? page) + step)) });
  }
  // The buttons that turn pages; blank if there is one page only.
  function pager({ page, n_pages }) {
    const turner = (step, name, sign, off) => `<button data-do="turn" data-key="turn ${step}" data-step="${step}" aria-label="${name} page" ${offIf(off)}>${sign}</button>`;
    return n_pages > 1 ? `<span class="ekw-pager">${turner(-1, "Previous", "‹", page === 0)} ${page + 1}/${+n_pages} ${turner(1, "Next", "›", page + 1 >= n_pages)}</span>` : "";
  }
  const close = () => { end(); model.off("change:page", answered); };
  // Messages that Python answers by their id begin with that of the view.
  const id = `ekw-${Math.random().toString(36).slice(2, 10)}`;
  let sent = 0;
  const nextId = () => `${id} ${(sent += 1)}`;
  return { root, find, focused, put, get, drawn, send, drawAlert, showAlert, ask, resetQuery, query, turn, pager, free, end: close, id, nextId };
}

// Of these rows one is reached by Tab.
function reachable(rows, row) {
  rows.forEach((one) => { one.tabIndex = one === row ? 0 : -1; });
}

// Mark the row that is open; if it is on another page, the row that Tab reaches stays.
function markRow({ root }, name, id) {
  const rows = [...root.querySelectorAll(`tr[data-${name}]`)], row = rows.find((one) => one.dataset[name] === String(id ?? ""));
  rows.forEach((one) => one.setAttribute("aria-selected", one === row));
  if (row) reachable(rows, row);
}

// Rows with `data-<name>`: arrow keys move between them, Enter and the space bar open one, Escape leads from the open one back.
// Returns a function that returns whether it handled a key.
function rowsOf({ root }, name, open) {
  return (event) => {
    const row = event.target.closest(`tr[data-${name}]`);
    if (!row || row !== event.target) {
      if (event.key !== "Escape" || !event.target.closest(".ekw-item")) return false;
      root.querySelector(`tr[data-${name}][tabindex="0"]`)?.focus();
      return true;
    }
    const rows = [...root.querySelectorAll(`tr[data-${name}]`)], at = rows.indexOf(row);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1 }[event.key];
    if (rows[to]) {
      rows[to].focus();
      reachable(rows, rows[to]);
    } else if (event.key === "Enter" || event.key === " ") open(row.dataset[name]);
    if (to !== undefined || event.key === "Enter" || event.key === " ") event.preventDefault();
    return true;
  };
}

// Clicks, choices and typing. A button whose action needs no more words sends its name; `changes` has what a field does, by
// the name of its data attribute; `typed` may handle a field, and the search is sent when typing pauses.
function listen({ root, ask, send, turn }, own, typed, changes = {}) {
  const actions = { turn: (one) => turn(Number(one.dataset.step)), ...own };
  let searching = null;
  root.addEventListener("click", (event) => {
    const one = event.target.closest("[data-do]"), action = actions[one?.dataset.do] || (() => send({ do: one.dataset.do }));
    if (one && root.contains(one) && !one.disabled && one.ariaDisabled !== "true") action(one, event);
  });
  root.addEventListener("change", ({ target }) => Object.keys(target.dataset).forEach((name) => changes[name]?.(target)));
  root.addEventListener("input", (event) => {
    if (typed(event) || !event.target.matches("[data-search]")) return;
    clearTimeout(searching);
    searching = setTimeout(() => ask({ search: event.target.value }), 200);
  });
}

// A button that is redrawn between pointer down and up gets no click: redraws wait until the click is over.
function presses(root) {
  const ends = new AbortController(), signal = ends.signal, waiting = new Set();
  let down = false;
  function release(event) {
    if (!down || (event.type === "pointermove" && event.buttons) || (event.type === "blur" && event.target !== window)) return;
    setTimeout(() => { // the click comes after pointerup and keyup
      down = false;
      const draws = [...waiting];
      waiting.clear();
      draws.forEach((draw) => draw());
    });
  }
  root.addEventListener("pointerdown", ({ target }) => { if (!target.closest("select")) down = true; }, { capture: true, signal }); // an open list swallows the release
  root.addEventListener("keydown", ({ key, target }) => {
    if (key === " " && target.closest("button, summary, [type=checkbox], [type=radio]")) down = true;
  }, { capture: true, signal });
  ["pointerup", "pointercancel", "pointermove", "keyup", "blur"].forEach((name) => window.addEventListener(name, release, { capture: true, signal }));
  return { free: (draw) => (down ? waiting.add(draw) : draw()), end: () => ends.abort() };
}

// Draw each trait now and whenever it changes; returns a function that ends this.
function drawOnChange({ drawn, free, end }, model, draws) {
  const take = (name) => drawn.set(name, model.get(name));
  Object.keys(draws).forEach(take);
  const stops = Object.entries(draws).map(([name, all]) => {
    const draw = () => { take(name); all.forEach((one) => one()); }, changed = () => free(draw);
    model.on(`change:${name}`, changed);
    draw();
    return () => model.off(`change:${name}`, changed);
  });
  return () => [end, ...stops].forEach((stop) => stop());
}
