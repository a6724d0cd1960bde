// Texts of models and data sets are shown, never run as HTML.
const esc = (text) =>
  String(text ?? "").replace(/[&<>"']/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" })[sign]);

// Signs that turn the order of a text around, such as U+202E, and letters that nobody sees stand as their number: else people
// read another text than judges. Joiners stay in scripts and emoji that need them, tags in flags.
const TURNS = /[\u202a-\u202e\u2066-\u2069\u200b\u2060-\u2064\u180e\u3164\uffa0\ufeff]|(?<=[ -~])[\u200c-\u200f]+(?=[ -~])|(?<!\u{1f3f4}[\u{e0020}-\u{e007f}]*)[\u{e0000}-\u{e007f}]+|[\ufe00-\ufe0f\u{e0100}-\u{e01ef}]{2,}/gu;
function showTurns(region) {
  const walker = document.createTreeWalker(region, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) if (walker.currentNode.parentNode.tagName !== "TEXTAREA") walker.currentNode.nodeValue = walker.currentNode.nodeValue.replace(TURNS, (signs) => [...signs].map((sign) => `⟨U+${sign.codePointAt(0).toString(16).toUpperCase()}⟩`).join(""));
}

// `disabled` would drop the focus of a keyboard user; `aria-disabled` keeps it.
const offIf = (off) => (off ? 'aria-disabled="true"' : "");

// Whether a price says that it is over the spending limit (see drafts.py): its button is off.
const isOver = (price) => String(price ?? "").includes("over the limit");

// A number with its noun: "1 item", "3 items".
const counted = (number, one) => `${+number} ${+number === 1 ? one : `${one}s`}`;
