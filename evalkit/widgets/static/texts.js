// Texts of models and data sets are shown, never run.
const esc = (text) =>
  String(text ?? "").replace(/[&<>"']/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" })[sign]);

// A number with its noun: "1 item", "3 items".
const counted = (number, one) => `${+number} ${+number === 1 ? one : `${one}s`}`;
