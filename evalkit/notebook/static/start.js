// The card of `start`: columns and their roles, rubric, judges, prompts, code. It hides the tuner until Python empties it.
function startPart({ root, find, put, get, send }) {
  const row = (one) => `<tr><th scope="row">${esc(one.column)}</th>
    <td><select data-role="${esc(one.column)}" data-key="role ${esc(one.column)}" aria-label="Role of ${esc(one.column)}" class="${one.role === "not used" ? "" : "ekw-used"}">${options(one.choices, one.role.replace("not used", ""), (role) => role || "not used")}</select></td>
    <td class="ekw-number">${esc(one.missing)}</td><td class="ekw-number">${esc(one.longest)}</td><td class="ekw-examples"><div class="ekw-two">${esc(one.examples)}</div></td></tr>`;
  function drawCard() {
    const card = get("card"), wasThere = root.classList.contains("ekw-start");
    root.classList.toggle("ekw-start", Boolean(card.columns));
    if (!card.columns) return wasThere && drawTuner();
    const problems = card.problems.map((text) => `<p>${esc(text)}</p>`).join(""), notes = card.notes.map((text) => `<li>${esc(text)}</li>`).join("");
    const prompts = Object.entries(card.prompts).map(([name, text]) => `<details><summary>Prompt for ${esc(name)}</summary><pre tabindex="0">${esc(text)}</pre></details>`).join("");
    put(".ekw-card", `<h3>${counted(card.n_rows, "row")}: what is in the columns?</h3>
      <div class="ekw-columns" tabindex="0" role="group" aria-label="Columns"><table><thead><tr><th scope="col">Column</th><th scope="col">Used as</th><th scope="col">Missing</th><th scope="col">Longest text<br><small>characters</small></th><th scope="col">Examples</th></tr></thead><tbody>${card.columns.map(row).join("")}</tbody></table></div>
      <div class="ekw-choices"><label>Rubric<select data-rubric data-key="rubric">${options(card.rubrics, card.rubric)}</select></label>
        <label>or a rubric file<input data-file data-key="file" placeholder="rubric.yaml" value="${esc(card.file)}"></label>
        <label class="ekw-wide">Judges<input data-judges data-key="judges" value="${esc(card.judges)}"></label></div>
      <p><small>${esc(card.about)}</small></p>
      <div class="ekw-problems" role="status" aria-label="Problems">${problems}</div><ul class="ekw-lines">${notes}</ul>
      ${prompts}${card.code ? `<details><summary>Code that does the same</summary><pre class="ekw-codetext" tabindex="0">${esc(card.code)}</pre><button data-do="copy" data-key="copy">Copy</button></details>` : ""}
      <div class="ekw-line"><button class="ekw-primary" data-do="open" data-key="open" ${offIf(problems)}>Open the tuner</button><small class="ekw-plan">${esc(get("status").plan)}</small></div>
      <small>Nothing is judged and nothing is paid before you press Run in the tuner. Replies are stored in ${esc(card.cache)}; those that are there are not asked for again.<br>
      In Python, the tuner is <code>card.tuner()</code> after <code>card = ek.start(…)</code>, or <code>_.tuner()</code> in the next cell.</small>`);
  }
  function drawTuner() {
    put(".ekw-card", "");
    find('[data-key="run"]').focus({ preventScroll: true });
    // the card was longer than the screen: begin at the top of the tuner, once it is laid out
    requestAnimationFrame(() => root.scrollIntoView({ block: "start" }));
  }
  const actions = { copy: () => copyText(get("card").code) };
  const rubric = ({ value }) => send({ do: "rubric", name: value });
  const changes = {
    role: ({ dataset, value }) => send({ do: "role", column: dataset.role, role: value }),
    judges: ({ value }) => send({ do: "judges", text: value }),
    rubric, file: rubric,
  };
  return { drawCard, actions, changes };
}
