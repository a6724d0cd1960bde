"""Images that judges are shown: what their bytes say of them, and where these are; they are read when they are sent."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from struct import error as StructError  # noqa: N812  # it is an exception
from struct import unpack_from
from typing import Any, NamedTuple
from urllib.parse import unquote

MOST_BYTES = 20 * 2**20
"""Of one image; services refuse larger ones."""
_TOO_LARGE = f"it has more than {MOST_BYTES:,} bytes, and no service takes it; save it smaller"
DETAILS = (None, "auto", "low", "high", "original")
_PNG_MODES = ("1", "L", "LA", "P", "RGB", "RGBA", "I", "I;16")
_MARKERS_WITHOUT_SIZE = (0xC4, 0xC8, 0xCC)  # of JPEG's Cx, which else begin a frame


class Header(NamedTuple):
    """What the bytes of an image say: its media type, its size in pixels, and whether it is whole, and moves."""

    media: str
    width: int
    height: int
    is_whole: bool
    is_animated: bool = False


def header_of(data: bytes) -> Header | None:
    """The header of a PNG, JPEG or WebP image; None for anything else.

    Examples
    --------
    >>> header_of(b"RIFF" + bytes([22, 0, 0, 0]) + b"WEBPVP8X" + bytes([10, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 2, 0, 0]))
    Header(media='image/webp', width=2, height=3, is_whole=True, is_animated=True)
    >>> header_of(b"<svg/>") is None
    True
    """
    for start, parse in _READERS.items():
        if data.startswith(start):
            try:
                return parse(data)
            except (StructError, IndexError):
                return Header("", 0, 0, is_whole=False)
    return None


def _png(data: bytes) -> Header:
    width, height = unpack_from(">II", data, 16)
    return Header("image/png", width, height, b"IEND\xaeB`\x82" in data[-4096:], b"acTL" in data[: data.find(b"IDAT")])


def _jpeg(data: bytes) -> Header:
    start = 2
    while data[start + 1] >> 4 != 0xC or data[start + 1] in _MARKERS_WITHOUT_SIZE:
        start += 1 if data[start + 1] == 0xFF else 2 + unpack_from(">H", data, start + 2)[0]
    height, width = unpack_from(">HH", data, start + 5)
    return Header("image/jpeg", width, height, data.find(b"\xff\xd9", start) > 0)


def _webp(data: bytes) -> Header | None:
    form, head = data[8:16], data[:30].ljust(30, b"\0")
    n_head = 25 if form == b"WEBPVP8L" else len(head)
    is_whole = len(data) >= max(n_head, unpack_from("<I", data, 4)[0] + 8)
    (bits,) = unpack_from("<I", head, 21)
    sizes = {
        b"WEBPVP8 ": [side & 0x3FFF for side in unpack_from("<HH", head, 26)],
        b"WEBPVP8L": [(bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1],
        b"WEBPVP8X": [int.from_bytes(head[start : start + 3], "little") + 1 for start in (24, 27)],
    }
    if form not in sizes:
        return None
    width, height = sizes[form]
    return Header("image/webp", width, height, is_whole, form == b"WEBPVP8X" and bool(head[20] & 2))


_READERS: dict[bytes, Callable[[bytes], Header | None]] = {
    b"\x89PNG\r\n\x1a\n": _png, b"\xff\xd8\xff": _jpeg, b"RIFF": _webp,
}  # fmt: skip


class Base64(NamedTuple):
    """Base64 in a text, from one place to another: the text is the user's, and is not copied."""

    text: str
    start: int
    end: int


class Image(dict[str, str]):
    """The mark of an image in an item: type, size and hash of its bytes, which stay where they are.

    Attributes
    ----------
    source
        Bytes, a path, base64 in a text, or an image of Pillow.
    header
        Its media type and size; None if it cannot be shown.
    detail
        How closely a model looks at it: ``auto``, ``low``, ``high``, ``original``, or None.
    problem
        Why judges cannot be shown it, and what to do; else empty.
    """

    __slots__ = ("detail", "header", "problem", "source")

    def __init__(self, source: Any, detail: Any = None, about: str = "") -> None:
        data, self.problem = _read(source)
        self.source, self.detail = source, detail
        header = header_of(data)
        if not self.problem:
            self.problem = _problem_of(header, detail)
        self.header = None if self.problem else header
        if self.header is not None:
            size = f"{self.header.media}, {self.header.width} x {self.header.height} pixels"
            about = f"{size}, {len(data):,} bytes, sha256 {hashlib.sha256(data).hexdigest()}"
            about += f", detail {detail}" if detail else ""
        super().__init__(type="image", unseen=about or f"sha256 {hashlib.sha256(data).hexdigest()}")

    @property
    def sent(self) -> dict[str, str]:
        """The image as it is sent: its `url`, which holds the data, and its `detail`, if it has one.

        Raises
        ------
        OSError
            If its file is gone, or was changed since its hash was made.
        """
        data = _bytes_of(self.source)
        if self.header is None or hashlib.sha256(data).hexdigest() not in self["unseen"]:
            raise OSError(f"the image {self['unseen']} was changed since it was read; judge the items again")
        url = f"data:{self.header.media};base64,{base64.b64encode(data).decode()}"
        return {"url": url, "detail": self.detail} if self.detail else {"url": url}


def _problem_of(header: Header | None, detail: Any) -> str:
    if header is None:
        return "it is not a PNG, JPEG or WebP image; save it as PNG"
    if not (header.is_whole and header.width and header.height):
        return "it is truncated; save it again"
    if header.is_animated:
        return "it is animated; save the frame to judge as PNG"
    return "" if detail in DETAILS else f"its detail is {detail!r:.40}; allowed: auto, low, high, original"


def _read(source: Any) -> tuple[bytes, str]:
    """The bytes at a source, and why they cannot be sent."""
    try:
        if isinstance(source, Path) and source.stat().st_size > MOST_BYTES:
            return b"", _TOO_LARGE
        data = _bytes_of(source)
    except (OSError, ValueError) as problem:  # of a file, or of Pillow
        return b"", f"it cannot be read ({problem}); save it again"
    return data, _TOO_LARGE if len(data) > MOST_BYTES else ""


def _bytes_of(source: Any) -> bytes:
    if isinstance(source, bytes):
        return source
    if isinstance(source, Path):
        return source.read_bytes()
    if isinstance(source, Base64):
        text = source.text[source.start : source.end]
        if "%" in text or "\\" in text:
            text = unquote(text).replace("\\", "")
        return base64.b64decode(text.rstrip("=") + "===", altchars="-_" if {*"-_"} & {*text} else None)
    buffer = BytesIO()
    (source if source.mode in _PNG_MODES else source.convert("RGB")).save(buffer, "PNG")
    return buffer.getvalue()


def image_in(value: Any) -> Image | None:
    """The image in a value of an item: bytes, a path, an image of Pillow or `datasets`; None if it holds none.

    A path is one only as a `pathlib.Path`: a text of a file of items must not name a file of this machine.
    """
    if type(value) is dict and value.keys() == {"bytes", "path"}:
        value = value["bytes"]
    is_pillow = type(value).__module__.partition(".")[0] == "PIL" and hasattr(value, "save")
    if isinstance(value, bytes) and (header_of(value) is not None or len(value) > MOST_BYTES):
        return Image(value)
    return Image(value) if isinstance(value, Path) or is_pillow else None


class AttachedImage(dict[str, str]):
    """What stands in a prompt in the place of an image that is sent with it."""

    __slots__ = ()
