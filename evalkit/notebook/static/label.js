// The label page, and the lead's view.
export default { render({ model, el }) { el.textContent = model.get("form").annotator; } };
