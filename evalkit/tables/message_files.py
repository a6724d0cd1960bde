"""Images, recordings and files in values: known by their shape, and marked; some judges are shown the images."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from evalkit.core.images import AttachedImage, Base64, Image
from evalkit.errors import InputError

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
        is_image = main == "image" and match.re is _DATA
        mark = {"type": _MEDIA.get(main, "file"), "unseen": about}
        parts.append(Image(Base64(text, *match.span(2)), about=about) if is_image else mark)
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
    about = about if is_plain_text(about) else _size("", about)
    url, detail = _image_url(fields)
    match = _DATA.match(url)
    if kind == "image" and match:
        return Image(Base64(url, *match.span(2)), detail, about)
    return {"type": kind, "unseen": about}


def _image_url(part: Mapping[str, Any]) -> tuple[str, Any]:
    """The address in an image part of OpenAI's forms, and its detail."""
    address = part.get("image_url")
    fields = address if isinstance(address, Mapping) else {"url": address, "detail": part.get("detail")}
    return str(fields.get("url") or ""), fields.get("detail")


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


def marks_in(value: Any) -> Iterator[dict[str, str]]:
    """The marks of images and files in a value of `shown_value`, in order."""
    if is_unseen(value):
        yield value
        return
    for element in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        if isinstance(element, (dict, list)):
            yield from marks_in(element)


def unseen(value: Any) -> str | None:
    """The first file in a value of `shown_value`: ``image``, ``audio``, ``video``, ``file``, or None."""
    return next((mark["type"] for mark in marks_in(value)), None)


def is_unseen(part: Any) -> bool:
    """Whether a part is the mark of an image or a file, or of an image that is sent with the prompt."""
    if not isinstance(part, dict) or len(part) != 2 or "unseen" not in part:
        return isinstance(part, AttachedImage)
    return isinstance(part["unseen"], str) and isinstance(part.get("type"), str) and is_plain_text(part["unseen"])


def mark_texts(mark: Mapping[str, str]) -> tuple[str, str]:
    """What a prompt says in the place of an image or a file: its kind, and what is known of it."""
    if isinstance(mark, AttachedImage):
        return mark["attached"], "sent with this message"
    return f"{mark['type']}, not shown", mark["unseen"]


def attached(inputs: Mapping[str, Any], last: int | None) -> tuple[dict[str, Any], tuple[Image, ...]]:
    """The inputs of an item with its images numbered, and these; if there are more, the `last` alone.

    Examples
    --------
    >>> attached({"answer": "no image"}, None)
    ({'answer': 'no image'}, ())
    """
    images = [mark for value in inputs.values() for mark in marks_in(value) if mark["type"] == "image"]
    images = images if last is None else images[-last:]
    shown = {id(image): image for image in images if isinstance(image, Image) and image.header is not None}
    numbers = {key: number for number, key in enumerate(shown, 1)}
    return {name: _numbered(value, numbers) if shown else value for name, value in inputs.items()}, tuple(
        shown.values()
    )


def _numbered(value: Any, numbers: Mapping[int, int]) -> Any:
    if id(value) in numbers:
        return AttachedImage(type="image", attached=f"image {numbers[id(value)]}")
    if isinstance(value, list):
        return [_numbered(element, numbers) for element in value]
    return {name: _numbered(field, numbers) for name, field in value.items()} if type(value) is dict else value


def with_images(items: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """The items with the images of files that the column ``image`` and parts of messages name, below a folder.

    Raises
    ------
    InputError
        For a name that is no file in this folder.
    """
    columns = {
        column: [_read_from(folder, cell, is_name=column == "image") for cell in items[column]]
        for column in items.columns
        if items[column].dtype == object or column == "image"
    }
    return items.assign(**{name: pd.Series(cells, items.index, object) for name, cells in columns.items()})


def _read_from(folder: Path, value: Any, *, is_name: bool) -> Any:
    """A value with the images of the files that it names; `is_name`: a text in it is such a name."""
    if isinstance(value, list):
        return [_read_from(folder, element, is_name=is_name) for element in value]
    if isinstance(value, str):
        return _file_in(folder, value, None) if is_name and not _is_at(value) else value
    if type(value) is not dict:
        return value
    name, detail = _image_url(value)
    if name and not _is_at(name):
        return _file_in(folder, name, detail)
    return {key: _read_from(folder, field, is_name=False) for key, field in value.items()}


def _file_in(folder: Path, name: str, detail: Any) -> Image:
    path = folder / name
    try:
        is_inside = path.resolve().is_relative_to(folder.resolve()) and path.is_file()
    except (OSError, ValueError):  # a name too long, or with a NUL
        is_inside = False
    if not is_inside:
        raise InputError(f"the image {name!r:.200} is not a file in the folder {str(folder)!r}, which images= names")
    return Image(path.resolve(), detail)
