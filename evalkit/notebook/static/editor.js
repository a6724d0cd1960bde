// The rubric as a form and as YAML. The form holds the whole criterion: criteria and levels are added and removed in it.
const LEVELS = ["ordinal", "nominal", "interval"];

function editorPart(ctx) {
  const { root, find, get, send } = ctx;
  let drawn = -1, yaml = false, typing = null, rests = [], sent = "", answered = "", drawnAs = null, otherView = "", toggling = false, step = 0;

  function level(code, text, at) {
    return `<div class="ekw-level"><div class="ekw-tags"><b></b><small></small></div><input class="ekw-code" value="${esc(code)}" aria-label="Code of level ${at + 1}" data-part="code">
      <textarea rows="2" data-part="text" aria-label="What level ${esc(code)} means">${esc(text)}</textarea>
      <button class="ekw-quiet" data-do="drop" aria-label="Remove level ${esc(code)}" title="Remove this level">×</button><small class="ekw-was"></small></div>`;
  }
  const ruleOf = (one) => (one.level === "nominal" || one.rule === "pass_if" ? "Passes if (codes)" : "Passes at");
  function criterion(one, at, open) {
    rests[at] = { rest: one.rest, rule: one.rule };
    return `<details class="ekw-criterion" data-at="${at}" ${open ? "open" : ""}><summary>${esc(one.name)} <small>${esc(one.level)}</small></summary>
      <div class="ekw-line ekw-whole"><label class="ekw-short ekw-name">Name <input data-part="name" value="${esc(one.name)}"></label>
      <label class="ekw-short">Scale is <select data-part="level" aria-label="Level of measurement of ${esc(one.name)}">${options(LEVELS, one.level)}</select></label></div>
      <label class="ekw-question">Question<textarea rows="2" data-part="description">${esc(one.description)}</textarea></label>
      <div class="ekw-levels" role="group" aria-label="Scale of ${esc(one.name)}">${one.scale.map(([code, text], n) => level(code, text, n)).join("")}</div>
      <div class="ekw-line ekw-whole"><label class="ekw-short"><span data-rule>${ruleOf(one)}</span> <input data-part="passes" value="${esc(one.passes)}"></label>
      <button data-do="add">Add a level</button><button class="ekw-quiet" data-do="remove" aria-label="Remove criterion ${esc(one.name)}" title="Remove this criterion">Remove</button></div></details>`;
  }
  function fields(draft) {
    const form = draft.form, chosen = get("figures").criterion;
    rests = [];
    return `<label class="ekw-whole">What is judged<textarea rows="2" data-part="whole">${esc(form.description)}</textarea></label>
      <div class="ekw-criteria">${form.criteria.map((one, at) => criterion(one, at, one.name === chosen || (!at && !form.criteria.some(({ name }) => name === chosen)))).join("")}</div>
      <div class="ekw-line ekw-whole"><button data-do="criterion_new">Add a criterion</button>
      <label class="ekw-short">Template <input data-part="template" list="${ctx.id}-templates" value="${esc(form.template)}"></label></div>
      <datalist id="${ctx.id}-templates">${draft.templates.map((name) => `<option value="${esc(name)}">`).join("")}</datalist>`;
  }
  // Python has answered all that was typed here: until then its draft is older than the one on screen.
  const settled = () => typing === null && answered === sent;
  function takeAnswer(id) {
    if (id.startsWith(`${ctx.id} `)) answered = id;
    else if (id && id !== otherView) [otherView, drawn] = [id, -1]; // typed in another view of this tuner
  }
  // The draft as it was typed, errors included; without errors it is the draft itself.
  const typedIn = (draft) => (draft.typed ? { ...draft, form: draft.typed.form || draft.form, yaml: draft.typed.text ?? draft.yaml } : draft);
  const parts = (form) => JSON.stringify([form.description, form.template, form.criteria.map((one) => [one.name, one.level, one.description, one.scale, one.passes, one.rule, one.rest])]);
  const shows = (draft) => (yaml ? find(".ekw-yaml").value === draft.yaml : parts(collect()) === parts(draft.form));
  function toggle() {
    toggling = false;
    if (get("draft").problem) return; // an invalid draft has no other form
    yaml = !yaml;
    drawDraft();
    find('[data-do="toggle"]').focus();
  }
  function drawDraft() {
    const draft = typedIn(get("draft"));
    if (!draft.form) return;
    takeAnswer(draft.answers);
    if (!find(".ekw-fields")) yaml = "text" in draft.typed;
    if (toggling && settled()) return toggle();
    const there = find(".ekw-fields") && drawnAs === yaml;
    if (!there || (drawn !== draft.revision && settled() && !shows(draft))) { // text being typed stays
      drawnAs = yaml;
      const body = yaml ? `<textarea class="ekw-yaml" rows="22" spellcheck="false" aria-label="Rubric as YAML">${esc(draft.yaml)}</textarea>` : fields(draft);
      find(".ekw-editor").innerHTML = `<div class="ekw-head"><h3>${esc(draft.id)} <small class="ekw-label"></small></h3>
        <span class="ekw-line"><button class="ekw-quiet ekw-short-only" data-do="whole"></button><button class="ekw-quiet ekw-rest" data-do="undo_edit" aria-label="Undo the last edit" title="Undo (Ctrl+Z)">↶</button><button class="ekw-quiet ekw-rest" data-do="redo_edit" aria-label="Redo the edit" title="Redo (Ctrl+Shift+Z)">↷</button><button class="ekw-whole" data-do="toggle" aria-pressed="${yaml}">YAML</button><button class="ekw-quiet ekw-rest ekw-dots-button" data-do="whole" data-all="1" title="Names, codes, scales, rules, template">⋯</button></span></div><div class="ekw-fields">${body}</div><div class="ekw-problem" role="alert"></div><div class="ekw-warnings ekw-rest"></div>`;
      markWhole();
    }
    drawn = draft.revision;
    find(".ekw-label").textContent = draft.name && !draft.ran ? `${draft.name}, not run yet${draft.differs ? `: ${draft.differs}` : ""}` : draft.name;
    ["undo", "redo"].forEach((name) => find(`[data-do="${name}_edit"]`).setAttribute("aria-disabled", !draft[name]));
    find(".ekw-problem").textContent = draft.problem;
    const warnings = draft.warnings || [];
    find(".ekw-warnings").innerHTML = warnings.length
      ? `<details><summary>${warnings.length} ${warnings.length === 1 ? "warning" : "warnings"} about the wording</summary><ul>${warnings.map((one) => `<li>${esc(one)}</li>`).join("")}</ul></details>` : "";
  }
  // Below 900 px only the level in question is there until one asks for more; names, codes and rules stand behind ⋯.
  const box = find(".ekw-edit");
  function markWhole() {
    const isWhole = box.classList.contains("ekw-all-fields"), isFull = box.classList.contains("ekw-full");
    root.querySelectorAll('[data-do="whole"]').forEach((one) => one.setAttribute("aria-expanded", one.dataset.all ? isWhole : isFull));
    find(".ekw-short-only").textContent = isFull ? "Only this level" : "Question, all levels";
    find(".ekw-dots-button").setAttribute("aria-label", "More: names, codes, scales, rules");
  }
  function toggleWhole({ dataset: { all } }) {
    box.classList.toggle(all ? "ekw-all-fields" : "ekw-full");
    markWhole();
    drawTags();
  }
  const openCriterion = () => find(".ekw-criterion[open]");
  function toLevel() {
    const open = openCriterion();
    (open?.querySelector(".ekw-picked textarea") || open?.querySelector(".ekw-level textarea") || find(".ekw-yaml"))?.focus();
  }
  let tagged = ""; // of which item the levels say who chose them: that of another one comes into view
  // Beside each level who chose it for the open item, and what differs from the version compared with; no field is redrawn.
  function drawTags() {
    const open = openCriterion(), item = get("item"), { criterion, diff = [], against, versions = [], passes = [] } = get("figures"), name = open?.querySelector('[data-part="name"]').value;
    if (!open || !criterion) return;
    const isOther = tagged !== item.item_id;
    tagged = item.item_id;
    const about = item.item_id && name === criterion ? item : {}, people = Object.entries(about.labels || {}), before = versions.find((one) => one.key === against)?.name;
    const levels = [...open.querySelectorAll(".ekw-level")], codes = levels.map((one) => one.querySelector('[data-part="code"]').value), shown = codes.indexOf(about.jury);
    levels.forEach((one, at) => {
      const who = people.filter(([, label]) => label === codes[at]).map(([person]) => person), changed = diff.find(({ where }) => where === `${name}: level ${codes[at]}`);
      one.classList.toggle("ekw-picked", at === Math.max(0, shown) && Boolean(about.item_id));
      one.classList.toggle("ekw-wrong", at === shown && about.wrong === true);
      one.classList.toggle("ekw-passing", name === criterion && codes[at] === passes[0]);
      one.querySelector(".ekw-tags b").textContent = codes[at];
      one.querySelector(".ekw-tags small").textContent = [at === shown ? "jury says" : "", who.length > 2 || who.length === people.length ? (who.length ? "people say" : "") : who.join(", ")].filter(Boolean).join(", ");
      one.querySelector(".ekw-was").innerHTML = changed ? `since ${esc(before)}: ${changedWords(changed.words, 40)}` : "";
    });
    const picked = open.querySelector(".ekw-picked"), below = picked ? picked.getBoundingClientRect().bottom + 8 - box.getBoundingClientRect().bottom : 0;
    if (isOther && below > 0) box.scrollTop += below;
  }
  function collect() {
    const part = (from, name) => from.querySelector(`[data-part="${name}"]`).value;
    const all = find(".ekw-fields");
    return {
      description: part(all, "whole"), template: part(all, "template"),
      criteria: [...all.querySelectorAll(".ekw-criterion")].map((one) => ({
        ...rests[one.dataset.at], name: part(one, "name"), level: part(one, "level"),
        description: part(one, "description"), passes: part(one, "passes"),
        scale: [...one.querySelectorAll(".ekw-level")].map((row) => [part(row, "code"), part(row, "text")]),
      })),
    };
  }
  function flush() {
    if (typing === null) return;
    clearTimeout(typing);
    typing = null;
    sent = ctx.nextId();
    send({ ...(yaml ? { do: "yaml", text: find(".ekw-yaml").value } : { do: "form", form: collect() }), id: sent, step: `${ctx.id} ${step}` });
  }
  function typed(event) {
    const one = event?.target.closest?.(".ekw-criterion");
    if (one) { // headings and labels follow the fields
      const [name, kind] = ["name", "level"].map((part) => one.querySelector(`[data-part="${part}"]`).value);
      one.querySelector("summary").innerHTML = `${esc(name)} <small>${esc(kind)}</small>`;
      one.querySelector("[data-rule]").textContent = ruleOf({ level: kind, rule: rests[one.dataset.at].rule });
      const names = { '[data-part="level"]': "Level of measurement of", ".ekw-levels": "Scale of", '[data-do="remove"]': "Remove criterion" };
      Object.entries(names).forEach(([part, label]) => one.querySelector(part).setAttribute("aria-label", `${label} ${name}`));
    }
    if (event?.target.matches?.('[data-part="code"], [data-part="name"]')) drawTags();
    const row = event?.target.matches?.('[data-part="code"]') && event.target.closest(".ekw-level");
    if (row) {
      row.querySelector("textarea").setAttribute("aria-label", `What level ${event.target.value} means`);
      row.querySelector("button").setAttribute("aria-label", `Remove level ${event.target.value}`);
    }
    clearTimeout(typing);
    typing = setTimeout(flush, 120); // planning follows: at most half a second from the last key to the new price
  }
  // a removed element hands the focus to its neighbour
  function removeElement(gone, next) {
    gone.remove();
    next?.focus();
    typed();
  }
  root.addEventListener("focusin", ({ target }) => { if (target.closest(".ekw-fields")) step += 1; }); // what is typed in one visit to a field is undone at once
  // Choosing a criterion opens it here, and closes the others.
  function show(name) {
    root.querySelectorAll(".ekw-criterion").forEach((one) => { one.open = one.querySelector('[data-part="name"]').value === name; });
    drawTags();
    const text = find(".ekw-yaml"), at = text ? text.value.split("\n").findIndex((line) => line.trim().replace(/^- /, "").replace(/['"]/g, "") === `name: ${name}`) : -1;
    if (at >= 0) text.scrollTop = at * parseFloat(getComputedStyle(text).lineHeight);
  }
  const actions = {
    toggle: () => {
      flush();
      toggling = true;
      if (settled()) toggle();
    },
    add: (one) => {
      const levels = one.closest(".ekw-criterion").querySelector(".ekw-levels"), codes = [...levels.querySelectorAll('[data-part="code"]')].map((box) => Number(box.value));
      const next = codes.every(Number.isFinite) && codes.length ? String(Math.max(...codes) + 1) : "";
      levels.insertAdjacentHTML("beforeend", level(next, "", codes.length));
      levels.lastElementChild.querySelector(next ? "textarea" : "input").focus();
      typed();
    },
    drop: (one) => {
      const row = one.closest(".ekw-level"), near = row.nextElementSibling || row.previousElementSibling;
      removeElement(row, near ? near.querySelector('[data-do="drop"]') : row.closest(".ekw-criterion").querySelector('[data-do="add"]'));
    },
    criterion_new: () => {
      const box = find(".ekw-criteria"), names = [...box.querySelectorAll('[data-part="name"]')].map((one) => one.value);
      let n = names.length + 1;
      while (names.includes(`criterion ${n}`)) n += 1;
      const fresh = { name: `criterion ${n}`, description: "", level: "ordinal", scale: [["0", "no"], ["1", "yes"]], rule: "pass_at", passes: "1", rest: {} };
      box.insertAdjacentHTML("beforeend", criterion(fresh, rests.length, true));
      const name = box.lastElementChild.querySelector('[data-part="name"]');
      name.focus();
      name.select();
      typed();
    },
    remove: (one) => {
      const gone = one.closest(".ekw-criterion"), near = gone.nextElementSibling || gone.previousElementSibling;
      if (near) near.open = true;
      removeElement(gone, near ? near.querySelector("summary") : find('[data-do="criterion_new"]'));
    },
  };
  return { drawDraft, drawTags, toggleWhole, toLevel, flush, typed, show, actions };
}
