// Texts of models and data sets are shown, never run as HTML.
const esc = (text) =>
  String(text ?? "").replace(/[&<>"']/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" })[sign]);

// Signs that turn the order of a text around, such as U+202E, and invisible letters stand as their number: else people
// read another text than judges. A joiner stays beside the scripts (Hebrew to Mongolian) and emoji that need it, and the tags of a
// flag that exists (the first group): others would be drawn as a plain flag.
const TURNS = /(\u{1f3f4}\u{e0067}\u{e0062}(?:\u{e0065}\u{e006e}\u{e0067}|\u{e0073}\u{e0063}\u{e0074}|\u{e0077}\u{e006c}\u{e0073})\u{e007f})|[\u{e0000}-\u{e007f}]+|[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb]|[\u200c-\u200f]{2,}|(?<![\u0590-\u109f\u1780-\u18af\ufb1d-\ufdff\ufe70-\ufefc\ufe0f\u{1f3fb}-\u{1f3ff}\p{Extended_Pictographic}\u200c-\u200f])[\u200c-\u200f](?![\u0590-\u109f\u1780-\u18af\ufb1d-\ufdff\ufe70-\ufefc\p{Extended_Pictographic}])|[\ufe00-\ufe0f\u{e0100}-\u{e01ef}]{2,}/gu;
const numbers = (signs) => [...signs].map((sign) => `⟨U+${sign.codePointAt(0).toString(16).toUpperCase()}⟩`).join("");
function showTurns(region) {
  const walker = document.createTreeWalker(region, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) if (walker.currentNode.parentNode.tagName !== "TEXTAREA") walker.currentNode.nodeValue = walker.currentNode.nodeValue.replace(TURNS, (signs, flag) => flag ?? numbers(signs));
}

// `disabled` would drop the focus of a keyboard user; `aria-disabled` keeps it.
const offIf = (off) => (off ? 'aria-disabled="true"' : "");

// Whether a price says that it is over the spending limit (see drafts.py).
const isOver = (price) => String(price ?? "").includes("over the limit");

// A number with its noun: "1 item", "3 items".
const counted = (number, one) => `${+number} ${+number === 1 ? one : `${one}s`}`;

// Without a secure page this fails: people copy from the box that shows the text.
const copyText = (text, done) => navigator.clipboard?.writeText(text).then(done).catch(() => {});

// The options of a list, each with its title.
const options = (values, chosen, title = (value) => value) => values.map((value) => `<option value="${esc(value)}" ${value === chosen ? "selected" : ""}>${esc(title(value))}</option>`).join("");

// A text with its marks for headings, lists, tables and code: all of it is escaped first, and there are no links, images or HTML.
function rendered(text) {
  const inline = (line) => line.replace(/`([^`]+)`/g, "<code>$1</code>").replace(/\*\*([^*]+)\*\*/g, "<b>$1</b>").replace(/(^|[^*\w])\*([^*\s][^*]*)\*(?!\w)/g, "$1<em>$2</em>");
  const cells = (line) => line.replace(/^\||\|\s*$/g, "").split("|").map((cell) => inline(cell.trim()));
  const BLOCKS = {
    head: (lines) => lines.map((line) => `<p><b>${inline(line.replace(/^#+ /, ""))}</b></p>`).join(""),
    table: (lines) => `<table>${lines.filter((line) => !/^\|[\s:|-]+$/.test(line)).map((line) => `<tr>${cells(line).map((cell) => `<td>${cell}</td>`).join("")}</tr>`).join("")}</table>`,
    list: (lines) => `<ul>${lines.map((line) => `<li>${inline(line.replace(/^\s*[-*] /, ""))}</li>`).join("")}</ul>`,
    text: (lines) => `<p>${lines.map(inline).join("<br>")}</p>`,
  };
  const kind = (line) => (/^#{1,6} /.test(line) ? "head" : /^\|/.test(line) ? "table" : /^\s*([-*]|\d+[.)]) /.test(line) ? "list" : "text");
  const blocks = (part) => part.split("\n").reduce((all, line) => {
    const last = all.at(-1);
    if (!line.trim()) all.push([]);
    else if (last?.length && kind(last.at(-1)) === kind(line)) last.push(line);
    else all.push([line]);
    return all;
  }, []).filter((lines) => lines.length).map((lines) => BLOCKS[kind(lines[0])](lines)).join("");
  return esc(text).split(/^```.*$/m).map((part, at) => (at % 2 ? `<pre>${part.replace(/^\n|\n$/g, "")}</pre>` : blocks(part))).join("");
}

// Runs of words of two texts; of what is the same, no more than so many characters.
function changedWords(words, longest = Infinity) {
  const shown = { same: (text) => (text.length > longest ? "…" : esc(text)), old: (text) => `<del>${esc(text)}</del>`, new: (text) => `<ins>${esc(text)}</ins>` };
  return words.map(([kind, text]) => shown[kind](text)).join(" ");
}
