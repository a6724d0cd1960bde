"""Images, recordings and files in values: known by their shape, and marked, since judges cannot be shown them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

_SHORTEST = 48  # characters of the shortest text that may hold a file
_LONG = 1000  # base64 characters without a blank that are a file
_DATA = re.compile(r"data:([\w.+-]+\\?/[\w.+-]+)(?:;[\w.=+-]+)*;base64,((?:[\w+/=%-]|\\/){32,})", re.ASCII)
_RUN = re.compile(rf"(?<![\w+/\\-])[\w+/\\-]{{{_LONG},}}={{0,2}}", re.ASCII)  # a backslash: JSON's \/ and \n
_CLASSES = [re.compile(letters) for letters in ("[a-z]", "[A-Z]", "[0-9]")]  # all are in base64, not in hex or DNA
_LANGFUSE = re.compile(r"@@@langfuseMedia:type=([^|@]*)\|([^@]*)@@@")
_BASE64 = re.compile(r"[\w+/-]{64,}={0,2}", re.ASCII)
# parts by their type: OpenAI's, and the main types of media
_PARTS = {
    **dict.fromkeys(("image_url", "input_image", "image"), "image"), **dict.fromkeys(("input_audio", "audio"), "audio"),
    **dict.fromkeys(("video_url", "video"), "video"), **dict.fromkeys(("file", "input_file"), "file"),
}  # fmt: skip
_MEDIA = {"image": "image", "audio": "audio", "video": "video"}
_MEDIA_TYPE = re.compile(r"(?:application|audio|font|image|model|video)/[\w.+-]+\s*(?:;|$)", re.IGNORECASE)
_TEXT_TYPE = re.compile(r"application/(?:[\w.+-]*(?:json|xml|yaml|javascript)|x-www-form)")
_ENDINGS = re.compile(
    r"(?P<image>\bimage/|\.(?:png|jpe?g|gif|webp|bmp|tiff?|heic|avif)\b)|(?P<audio>\baudio/|\.(?:mp3|wav|ogg|flac|m4a)\b)"
    r"|(?P<video>\bvideo/|\.(?:mp4|mov|webm|avi)\b)", re.IGNORECASE)  # fmt: skip
# cells of a column of images or recordings: of `datasets`, of its viewer, and what stands for them in a CSV file
_CELLS = ({"bytes", "path"}, {"path"}, {"bytes"}, {"array", "path", "sampling_rate"}, {"src", "height", "width"})
_WRITTEN = re.compile(
    r"\[?<PIL\.[\w.]+ image mode=[\w;]+ size=\d+x\d+ at 0x[0-9A-Fa-f]+>\]?"
    r"|\{'bytes': (?:None|b['\"].*), 'path': .*\}", re.DOTALL)  # fmt: skip


def is_plain_text(text: str) -> bool:
    """Whether a text holds no image or file: no ``data:`` URL, and no thousand base64 characters in a row."""
    if len(text) < _SHORTEST:
        return True
    if (";base64," in text and _DATA.search(text)) or "@@@langfuseMedia:" in text:
        return False
    if len(text) < _LONG or max(map(len, text.split()), default=0) < _LONG:
        return True
    return not any(_is_data(run[0]) for run in _RUN.finditer(text))


def _is_data(run: str) -> bool:
    return all(letters.search(run) for letters in _CLASSES)


def cut_files(text: str) -> Any:
    """A text with images and files in it as parts, these as marks; the text if it holds none."""
    parts: list[Any] = []
    end = 0
    runs = (run for run in _RUN.finditer(text) if _is_data(run[0]))
    for match in sorted((*_DATA.finditer(text), *runs, *_LANGFUSE.finditer(text)), key=re.Match.start):
        media, content = ("", match[0]) if match.re is _RUN else match.groups()
        main = media.partition("/")[0].strip("\\")
        if match.start() < end or main == "font":
            continue
        if match.start() > end:
            parts.append({"type": "text", "text": text[end : match.start()]})
        about = content.partition("|")[0] if match.re is _LANGFUSE else _size(media, content)
        parts.append({"type": _MEDIA.get(main, "file"), "unseen": about})
        end = match.end()
    if not parts:
        return text
    return parts + ([{"type": "text", "text": text[end:]}] if text[end:] else [])


def file_part(part: Mapping[str, Any], *, in_message: bool = False) -> Mapping[str, Any] | None:
    """The mark of a mapping that is an image or a file; None if it is none.

    In a message, an address with a media type beside it is a file, too: the model was shown it.
    """
    if is_unseen(part):
        return part
    name = str(part.get("type")).replace("-", "_")
    fields = {key: value for key, value in part.items() if key != "type"}
    kind = _PARTS.get(name) if "text" not in fields and _is_told(name, fields) else None
    if kind is None:
        texts = (value for value in fields.values() if isinstance(value, str))
        media = next((text for text in texts if _MEDIA_TYPE.match(text) and not _TEXT_TYPE.match(text)), "")
        if not media or not any(_holds_data(value) or (in_message and _is_at(value)) for value in fields.values()):
            return None
        kind = _MEDIA.get(media.partition("/")[0], "file")
    about = ", ".join(dict.fromkeys(_about(fields)))[:300]
    return {"type": kind, "unseen": about if is_plain_text(about) else _size("", about)}


def _is_told(name: str, fields: Mapping[str, Any]) -> bool:
    """Whether a part of a type that is a file tells where or what it is; a list of files with their names does not."""
    values = [fields.get("file")] if name == "file" else [*fields.values()]
    is_id = name in ("input_file", "input_image") and bool(values)
    return is_id or any(isinstance(value, Mapping) or _is_at(value) or _holds_data(value) for value in values)


def _holds_data(value: Any) -> bool:
    """Whether a value is the content of a file: base64, or numbers of bytes, which Node.js wraps."""
    if isinstance(value, str):
        return _BASE64.fullmatch("".join(value[:1000].splitlines()).rstrip("=") + "=") is not None
    numbers = value.get("data") if isinstance(value, Mapping) else value
    return isinstance(numbers, list) and {*map(type, numbers)} == {int}


def _is_at(value: Any) -> bool:
    return isinstance(value, str) and ("://" in value or value.startswith("data:"))


def _about(value: Any) -> Iterator[str]:
    """What is known of a file: its address, or type, size and hash."""
    if isinstance(value, Mapping):
        for name, field in value.items():
            if name not in ("type", "detail", "format"):
                yield from _about(field)
    elif isinstance(value, str) and not _MEDIA_TYPE.match(value):
        match = _DATA.match(value)
        yield _size(*match.groups()) if match else _size("", value) if _holds_data(value) else value


def _size(media: str, data: str) -> str:
    n_bytes = len(data.rstrip("=")) * 3 // 4
    return f"{media + ', ' if media else ''}{n_bytes:,} bytes, sha256 {hashlib.sha256(data.encode()).hexdigest()[:12]}"


def media_of_cell(value: Any) -> dict[str, str] | None:
    """The mark of a cell that is an image or a recording and no text, as `datasets` or pandas write it; else None."""
    if isinstance(value, str):
        is_written = value.startswith(("<PIL.", "[<PIL.", "{'bytes': ")) and _WRITTEN.fullmatch(value)
        return {"type": _kind_at(value) or "image", "unseen": value[:60]} if is_written else None
    if not isinstance(value, Mapping) or value.keys() not in _CELLS:
        return None
    kind = "audio" if "array" in value else "image" if "src" in value else _kind_at(str(value.get("path")))
    about = str(value.get("path") or value.get("src") or "its bytes")
    return {"type": kind or "file", "unseen": about[:300]} if kind or isinstance(value.get("bytes"), str) else None


def _kind_at(path: str) -> str | None:
    """``image``, ``audio`` or ``video`` by the ending of a path; None by any other."""
    ending = _ENDINGS.search(path)
    return ending.lastgroup if ending else None


def unseen(value: Any) -> str | None:
    """What a judge cannot be shown in a value of `shown_value`: ``image``, ``audio``, ``video``, ``file``, or None."""
    if isinstance(value, dict):
        if is_unseen(value):
            return str(value["type"])
        value = value.values()
    elif not isinstance(value, list) or {*map(type, value)} == {str}:
        return None
    for element in value:
        if isinstance(element, (dict, list)) and (kind := unseen(element)) is not None:
            return kind
    return None


def is_unseen(part: Any) -> bool:
    """Whether a part is the mark of an image or a file."""
    if not isinstance(part, dict) or len(part) != 2 or "unseen" not in part:
        return False
    return isinstance(part["unseen"], str) and isinstance(part.get("type"), str) and is_plain_text(part["unseen"])
