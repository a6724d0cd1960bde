// The form of a run, its plan, and the progress of the run. What is typed is kept here and sent to Python, which returns
// the errors; fields are redrawn only when judges are added or removed.
const JUDGE_FIELDS = { // label, hint
  judge_backend: ["Backend"], judge_model_name: ["Model"], weight: ["Weight", "1"], judge_template_id: ["Template", "from pack or profile"],
  base_url: ["Server URL", "http://host:8000/v1"], api_key_env: ["Key variable", "OPENAI_API_KEY"], temperature: ["Temperature", "1.0"],
  max_tokens: ["Max. tokens", "512"], name: ["Name", "provider:model"],
};
const OVER = ["succeeded", "failed", "cancelled"];

function wizardPart(ctx) {
  const { root, find, put, get, send } = ctx;
  let form = null, drawn = null, timer = null, answer = "";

  const errorOf = (place) => `<span class="ekw-error" id="${ctx.id}-${place.replaceAll(".", "-")}" data-error="${place}"></span>`;
  const described = (place) => `aria-describedby="${ctx.id}-${place.replaceAll(".", "-")}" data-place="${place}" data-key="${place}"`;
  function select(place, label, names, chosen, none) {
    return `<label>${label}<select ${described(place)}>${none === undefined ? "" : `<option value="">${esc(none)}</option>`}${options(names, chosen)}</select>${errorOf(place)}</label>`;
  }
  function text(place, label, value, hint = "", list = "") {
    return `<label>${label}<input ${described(place)} value="${esc(value)}" placeholder="${esc(hint)}" ${list ? `list="${ctx.id}-${list}"` : ""}>${errorOf(place)}</label>`;
  }
  function judge(one, at) {
    const field = (name) => text(`judges.${at}.${name}`, JUDGE_FIELDS[name][0], one[name] || "", JUDGE_FIELDS[name][1], name === "judge_template_id" ? "templates" : "");
    const more = ["temperature", "max_tokens", "name"], open = more.some((name) => one[name]);
    return `<fieldset class="ekw-one" data-judge="${at}"><legend>Judge ${at + 1}</legend>
      <div class="ekw-grid">${select(`judges.${at}.judge_backend`, JUDGE_FIELDS.judge_backend[0], get("choices").judge_backend, one.judge_backend)}${["judge_model_name", "weight", "judge_template_id", "base_url", "api_key_env"].map(field).join("")}</div>
      <div class="ekw-line"><details class="ekw-more" ${open ? "open" : ""}><summary>Temperature, tokens, name</summary><div class="ekw-grid">${more.map(field).join("")}</div></details>
      <span class="ekw-push"></span><button class="ekw-quiet" data-do="judge_drop" data-at="${at}" data-key="drop ${at}" aria-label="Remove judge ${at + 1}">Remove</button></div>${errorOf(`judges.${at}`)}</fieldset>`;
  }
  function drawForm() {
    const given = get("form");
    const last = given.answers || "", otherView = last !== answer && !last.startsWith(`${ctx.id} `) && timer === null;
    if (!given.scoring_mode || (drawn === given.revision && form && !otherView)) return;
    [drawn, answer] = [given.revision, last];
    form = structuredClone(given);
    drawFields();
  }
  function drawFields() {
    const known = get("choices"), judged = form.scoring_mode !== "deterministic";
    const modes = known.scoring_mode.map((name) => `<label class="ekw-check"><input type="radio" name="${ctx.id}-mode" value="${name}" data-place="scoring_mode" data-key="mode ${name}" ${name === form.scoring_mode ? "checked" : ""}>${name}</label>`).join("");
    const starter = known.starter ? `<div class="ekw-panel" role="group" aria-label="Starter pack"><p>The registry has no packs yet. This one uses tasks and data that come with evalkit:</p><pre class="ekw-starter">${esc(known.starter)}</pre>
      <div><button data-do="starter" data-key="starter">Create the starter pack</button></div></div>` : "";
    put(".ekw-form", `${starter}<fieldset><legend>What runs</legend><div class="ekw-grid">${select("pack", "Pack", known.packs, form.pack, known.packs.length ? "choose a pack" : "no packs in the registry")}
      ${text("model", "Model", form.model, form.backend === "custom" ? "NAME=FILE.py" : "org/model")}${select("backend", "Model backend", known.backend, form.backend)}${text("max_samples", "Max. samples per task", form.max_samples, "all")}</div></fieldset>
      <fieldset><legend>How it is scored</legend><div class="ekw-line" role="radiogroup" aria-label="Scoring mode" aria-describedby="${ctx.id}-scoring_mode">${modes}</div>${errorOf("scoring_mode")}
      ${judged ? `<div class="ekw-grid">${select("aggregation", "Aggregate votes by", known.aggregation, form.aggregation, "profile, else mean")}${text("samples", "Samples per judge", form.samples, "profile, else 3")}${text("profile", "Profile", form.profile, "none", "profiles")}</div>
      <label class="ekw-check"><input type="checkbox" data-place="report_disagreement" data-key="report" ${form.report_disagreement ? "checked" : ""}>Report the judges' disagreement per sample</label>` : ""}</fieldset>
      ${judged ? `<div class="ekw-panel" role="group" aria-label="Judges">${form.judges.map(judge).join("") || "<p class='ekw-empty'>No judges here: those of the profile or of the tasks are used.</p>"}${errorOf("judges")}
      <div><button data-do="judge_add" data-key="judge add">Add a judge</button></div></div>` : ""}
      <datalist id="${ctx.id}-templates">${known.templates.map((name) => `<option value="${esc(name)}">`).join("")}</datalist><datalist id="${ctx.id}-profiles">${known.profiles.map((name) => `<option value="${esc(name)}">`).join("")}</datalist>`);
    drawCheck();
  }
  function drawCheck() {
    const check = get("check"), errors = check.errors || {};
    root.querySelectorAll("[data-error]").forEach((place) => {
      const text = errors[place.dataset.error] || "";
      if (place.textContent !== text) place.textContent = text;
    });
    root.querySelectorAll(".ekw-form [data-place]").forEach((one) => one.setAttribute("aria-invalid", Boolean(errors[one.dataset.place])));
    // with `data-stay`, the box is redrawn only when its content changes: screen readers announce the errors once
    const other = Object.entries(errors).filter(([place]) => !root.querySelector(`[data-error="${CSS.escape(place)}"]`));
    const shown = Object.entries(errors).filter((one) => !other.some(([place]) => place === one[0]));
    const bad = Object.keys(errors).length, going = running();
    put(".ekw-plan-box", `<div class="ekw-line"><button class="ekw-primary" ${offIf(bad || going || !check.ready)} data-do="start" data-key="start">▶ Start the run</button>
      <button ${offIf(!going)} data-do="stop" data-key="stop">■ Stop</button>${bad ? `<small>${bad} ${bad === 1 ? "error" : "errors"} to fix first</small>` : ""}</div>
      <div class="ekw-problem" role="alert">${other.map(([, text]) => `<p>${esc(text)}</p>`).join("")}</div>
      <div class="ekw-sr" role="alert">${shown.map(([place, text]) => `<p>${esc(labelOf(place))}: ${esc(text)}</p>`).join("")}</div>
      <div role="status" aria-label="Plan of the run"><ul class="ekw-lines">${(check.plan || []).map((line) => `<li>${esc(line)}</li>`).join("")}</ul></div>`);
    ["command", "yaml", "json"].forEach((name) => { find(`[data-export="${name}"]`).value = check[name] || ""; });
  }
  function labelOf(place) {
    const [, at, part] = place.split(".");
    const label = JUDGE_FIELDS[part]?.[0] || root.querySelector(`[data-place="${CSS.escape(place)}"]`)?.labels?.[0]?.firstChild?.textContent || place;
    return at === undefined ? label.replaceAll("_", " ") : `Judge ${Number(at) + 1}, ${label}`;
  }
  const running = () => Boolean(get("progress").id) && !OVER.includes(get("progress").status);

  // -- the progress of a run
  function drawRuns() {
    const runs = get("runs").rows || [], shown = get("progress").id || get("run").id;
    find('[data-box="runs"] > summary').textContent = `Runs of this registry: ${get("runs").n || 0}`;
    const list = runs.length
      ? `<div class="ekw-scroll" tabindex="0" data-key="runs" role="region" aria-label="Runs of this registry"><table><thead><tr>${["Run", "Status", "Pack", "Mode", "Model"].map((name) => `<th scope="col">${name}</th>`).join("")}</tr></thead><tbody>${runs
          .map((run) => `<tr><th scope="row"><button data-do="watch" data-key="watch ${esc(run.id)}" data-id="${esc(run.id)}" aria-pressed="${run.id === shown}" aria-label="Show run ${esc(run.id)}">${esc(run.id)}</button></th><td>${mark(run.status)}</td><td>${esc(run.pack)}</td><td>${esc(run.scoring_mode)}</td><td class="ekw-text">${esc(run.model)}</td></tr>`).join("")}</tbody></table></div>`
      : "<p class='ekw-empty'>No runs yet.</p>";
    put(".ekw-runs", list);
  }
  const mark = (status) => `<span class="ekw-${status === "succeeded" ? "better" : status === "failed" ? "worse" : "as"}">${{ succeeded: "✓", failed: "✗", running: "▶", cancelled: "■" }[status] || ""} ${esc(status)}</span>`;
  function drawProgress() {
    const now = get("progress"), before = find(".ekw-log"), at = before?.scrollTop;
    const follows = !before || at + before.clientHeight >= before.scrollHeight - 4; // else the user is reading earlier lines
    if (!now.id || OVER.includes(now.status)) put(".ekw-progress", now.id && now.status !== "succeeded" ? log(now, true) : "");
    else {
      const [done, total] = now.judged || [];
      put(".ekw-progress", `<div class="ekw-head"><h3>${esc(now.id)} <small>${esc(now.pack)} with ${esc(now.model)}</small></h3>${mark(now.status)}</div>
        <progress aria-label="Calls judged" ${total ? `value="${+done}" max="${+total}"` : ""}></progress>
        <small class="ekw-count" role="status">${total ? `${+done} of ${counted(total, "call")} judged` : now.stopping ? "stopping …" : "no calls judged yet"}</small>
        <ul class="ekw-lines">${(now.tasks || []).map(([task, scored]) => `<li>${esc(task)}${scored ? `: ${esc(scored)}` : ""}</li>`).join("")}</ul>${log(now, false)}`);
    }
    const pre = find(".ekw-log");
    if (pre) pre.scrollTop = follows ? pre.scrollHeight : at;
    drawCheck();
    drawRuns();
  }
  function log(now, over) {
    if (!now.here) return "<p class='ekw-empty'>The log is on the machine that executes the run.</p>";
    return `<h4>${over ? "End of the log" : "Log"}</h4><pre class="ekw-log" tabindex="0" data-key="log" aria-label="Log of the run">${esc((now.log || []).join("\n"))}</pre>`;
  }

  // -- actions
  function sendSoon() {
    clearTimeout(timer);
    timer = setTimeout(flush, 250);
  }
  function flush() {
    clearTimeout(timer);
    timer = null;
    if (form) send({ do: "form", form, id: ctx.nextId() });
  }
  function typed(one) {
    const [name, at, part] = one.dataset.place.split(".");
    const value = one.type === "checkbox" ? one.checked : one.value;
    if (part) form.judges[at][part] = value;
    else form[name] = value;
    if (name === "scoring_mode" || name === "backend") drawFields();
    sendSoon();
  }
  const actions = {
    start: () => { flush(); send({ do: "start" }); },
    starter: () => { flush(); send({ do: "starter" }); find('[data-place="pack"]').focus(); },
    judge_add: () => {
      form.judges = [...form.judges, { judge_backend: "fake", judge_model_name: ["strict", "lenient", "verbose", "noisy"][form.judges.length] || "" }];
      drawFields();
      const name = find(`[data-place="judges.${form.judges.length - 1}.judge_model_name"]`);
      name.focus();
      name.select(); // typing replaces the suggestion
      sendSoon();
    },
    judge_drop: (one) => { form.judges.splice(Number(one.dataset.at), 1); drawFields(); find('[data-do="judge_add"]').focus(); sendSoon(); },
    copy: (one) => {
      const box = find(`[data-export="${one.dataset.of}"]`);
      box.focus();
      box.select();
      copyText(box.value);
    },
    watch: (one) => send({ do: "watch", id: one.dataset.id }),
  };
  return { drawForm, drawCheck, drawRuns, drawProgress, typed, actions };
}
