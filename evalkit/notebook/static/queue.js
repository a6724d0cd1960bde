// The label queue: one item at full width, its levels as keys. It replaces the rest of the screen while it is open.
function queuePart(ctx, { judgeArticles, rest, inputs, measureFolds }) {
  const { root, find, put, get, send } = ctx, region = find(".ekw-queue");
  let shown = "", waiting = ""; // the last message, until Python has answered it: no key counts for an item not yet read
  const set = (changes) => send({ do: "queue", open: true, source: get("queue").source || "random", blind: get("queue").blind ?? true, ...changes });
  function ask(message) {
    if (waiting) return;
    waiting = ctx.nextId();
    send({ ...message, id: waiting });
  }
  const ACTIONS = {
    queue: () => set({}),
    close_queue: () => set({ open: false }),
    source: (one) => set({ source: one.dataset.name }),
    level: ({ dataset: { id, label } }) => ask({ do: "label_next", item_id: id, criterion: get("queue").criterion, label }),
    undo_label: () => ask({ do: "undo_label" }),
    skip_item: () => ask({ do: "skip_item", item_id: get("queue").item_id, criterion: get("queue").criterion }),
    count_labels: (one) => send({ do: "count_labels", annotator: one.dataset.name, counts: one.dataset.counts !== "false" }),
  };
  const DISPUTED = "Items drawn by how much the judges disagree, for improving the rubric. They are harder than the others, so their labels do not count in agreement with people.";
  const CHANGED = "Items whose verdict differs between the two versions shown. Their labels decide about these two alone, and count in no other figure.";
  function drawQueue() {
    const queue = get("queue"), focused = root.contains(ctx.focused()), was = root.classList.contains("ekw-labelling");
    if (queue.answers === waiting) waiting = "";
    root.classList.toggle("ekw-labelling", Boolean(queue.open));
    put(".ekw-queue", queue.open ? html(queue) : "");
    measureFolds();
    if (!focused) return;
    if (queue.open && !region.contains(ctx.focused())) region.focus({ preventScroll: true });
    if (!queue.open && was) find('[data-do="queue"]')?.focus();
    const next = shown === queue.name && region.querySelector("fieldset[aria-current]"); // of another item the text comes first
    shown = queue.name;
    if (queue.open) (next || find(".ekw-queue-head")).scrollIntoView({ block: "nearest" });
  }
  function html(queue) {
    const none = queue.item_id === null, source = (name, title) => `<button data-do="source" data-key="source ${name}" data-name="${name}" aria-pressed="${queue.source === name}">${title}</button>`;
    // keys answer the question that is next
    const levels = (id, given) => queue.levels.map(([code, text, key]) => `<button data-do="level" data-key="level ${esc(code)}${id === queue.item_id ? "" : ` ${esc(id)}`}" data-id="${esc(id)}" data-label="${esc(code)}" ${given === undefined ? "" : `aria-pressed="${given === code}"`} ${key && id === queue.item_id ? `aria-keyshortcuts="${esc(key)}"` : ""}>${
        key && key !== code && id === queue.item_id ? `<kbd>${esc(key)}</kbd> ` : ""}<b>${esc(code)}</b> <span>${esc(text)}</span></button>`).join("");
    const question = ([id, text, given]) => `<fieldset ${id === queue.item_id ? 'aria-current="true"' : ""}><legend dir="auto">${esc(text)}</legend><div class="ekw-levels" role="group" aria-label="Your label">${levels(id, given)}</div></fieldset>`;
    const answers = queue.questions.length ? queue.questions.map(question).join("") : `<div class="ekw-levels" role="group" aria-label="Your label">${levels(queue.item_id)}</div>`;
    const random = `All items, in a fixed random order. Labels of ${esc(queue.annotator)} ${queue.counts ? "count" : "do not count"} in the figures.
      <button data-do="count_labels" data-key="counts" data-name="${esc(queue.annotator)}" data-counts="${!queue.counts}">${queue.counts ? "Leave them out" : "Count them"}</button>`;
    const undo = queue.undo ? `Undo ${esc(queue.undo[0])}: ${esc(queue.undo[1])}` : "Undo";
    const empty = queue.n ? `All ${counted(queue.n, "item")} of this source are labelled.` : "No item is drawn: the judges' scores are equal on all, or nothing is judged yet.";
    return `<div class="ekw-queue-head"><div class="ekw-line"><label class="ekw-short">Label as <input data-annotator data-key="annotator" value="${esc(queue.annotator)}" aria-label="Annotator"></label>
      <span class="ekw-line" role="group" aria-label="Source">${source("random", "Random")}${source("disputed", "Disputed")}${get("figures").to_label || queue.source === "changed" ? source("changed", "Changed") : ""}</span>
      <label class="ekw-check"><input type="checkbox" data-blind data-key="blind" ${queue.blind ? "checked" : ""}>Blind: hide the jury</label>
      <span class="ekw-push"></span><button data-do="close_queue" data-key="close" aria-keyshortcuts="Escape">Close <kbd>Esc</kbd></button></div>
      <small class="ekw-line">${{ disputed: DISPUTED, changed: CHANGED }[queue.source] || random}</small>
      ${queue.precision ? `<small class="ekw-line">${esc(queue.precision)}</small>` : ""}</div>
      <div class="ekw-head" role="status"><h3>${none ? empty : `${esc(queue.name)} <small>${esc(queue.criterion)} · ${+queue.n_done} of ${+queue.n}${queue.source === "disputed" ? " drawn items" : ""}${queue.questions.length ? " criteria" : ""} labelled by ${esc(queue.annotator)}${queue.n_skipped ? `, ${+queue.n_skipped} skipped: asked again at the end` : ""}</small>`}</h3></div>
      ${none ? "" : `${queue.question ? `<p class="ekw-labels">${esc(queue.question)}</p>` : ""}${inputs(queue.inputs, queue.forms, true)}`}
      ${queue.judges.length ? `<div class="ekw-judges">${judgeArticles(queue.judges)}${rest(queue.judges)}</div>` : ""}
      <div class="ekw-queue-foot">${none ? "" : `<div class="ekw-answers">${answers}</div>`}
      <span class="ekw-line">${none ? "" : `<button class="ekw-quiet" data-do="skip_item" data-key="skip" aria-keyshortcuts="s">Skip <kbd>S</kbd></button>`}
      <button class="ekw-quiet" data-do="undo_label" data-key="undo" aria-keyshortcuts="u" ${offIf(!queue.undo)}>${undo} <kbd>U</kbd></button></span></div>`;
  }
  // Returns whether the queue handled the key; `l` opens it from anywhere but a field.
  function pressed(event) {
    const queue = get("queue"), key = event.key;
    if (queue.open && key === "Enter" && event.target.matches("[data-annotator]")) return region.focus({ preventScroll: true }), true; // keys label again
    const typing = key !== "Escape" && event.target.matches("input:not([type=checkbox]), select, textarea");
    if (event.ctrlKey || event.metaKey || event.altKey || typing) return Boolean(queue.open);
    if (!queue.open) return key === "l" && !get("figures").browse && (set({}), true);
    const button = region.querySelector(`[aria-keyshortcuts="${CSS.escape(key)}"]`);
    button?.click();
    if (button) event.preventDefault();
    return true;
  }
  return { actions: ACTIONS, changes: { blind: ({ checked }) => set({ blind: checked }) }, drawQueue, pressed };
}
