// Texts of models and data sets are shown, never run.
const esc = (text) =>
  String(text ?? "").replace(/[&<>"']/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" })[sign]);

// A button that is off keeps the focus: a disabled one would drop it, and who works by keyboard would start again.
const offIf = (off) => (off ? 'aria-disabled="true"' : "");

// A number with its noun: "1 item", "3 items".
const counted = (number, one) => `${+number} ${+number === 1 ? one : `${one}s`}`;
