"""What the first bytes of an image say of it, and which images judges are not shown."""

from __future__ import annotations

import copy
import hashlib
import pickle
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pictures import jpeg, png, url_of, webp

import evalkit as ek
from evalkit.core.images import MOST_BYTES, Base64, Image, header_of, image_in
from evalkit.errors import EvalkitWarning

KEY_FRAME = b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 640 | 1 << 14, 480)  # the upper two bits are a scale
LOSSLESS = b"\x2f" + struct.pack("<I", 639 | 479 << 14)
EXTENDED = bytes([0, 0, 0, 0]) + (639).to_bytes(3, "little") + (479).to_bytes(3, "little")
ANIMATED = bytes([2]) + EXTENDED[1:]


@pytest.mark.parametrize(
    ("data", "media", "size"),
    [
        (png(3, 2), "image/png", (3, 2)),
        (jpeg(640, 480), "image/jpeg", (640, 480)),
        (jpeg(640, 480, rotated=True), "image/jpeg", (640, 480)),  # as it is stored
        (webp(b"VP8 ", KEY_FRAME), "image/webp", (640, 480)),
        (webp(b"VP8L", LOSSLESS), "image/webp", (640, 480)),
        (webp(b"VP8X", EXTENDED), "image/webp", (640, 480)),
    ],
)
def test_headers_say_kind_and_size(data: bytes, media: str, size: tuple[int, int]) -> None:
    header = header_of(data)
    assert (header.media, header.width, header.height) == (media, *size)
    image = Image(data)
    assert image.problem == ""
    assert image["unseen"].endswith(hashlib.sha256(data).hexdigest())
    assert image.sent == {"url": url_of(data, media)}


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not a PNG, JPEG or WebP"), (b"<svg xmlns='x'/>", "not a PNG, JPEG or WebP"),
        (b"GIF89a" + bytes(20), "not a PNG, JPEG or WebP"), (b"RIFF\x04\0\0\0WAVEfmt ", "not a PNG, JPEG or WebP"),
        (png()[:-12], "truncated"), (png()[:20], "truncated"), (png(0, 2), "truncated"),
        (jpeg(2, 2)[:-2], "truncated"), (jpeg(2, 2)[:9], "truncated"), (b"\xff\xd8\xff", "truncated"),
        (webp(b"VP8L", LOSSLESS)[:-1], "truncated"), (b"RIFF\x08\0\0\0WEBPVP8L", "truncated"),
        (png(animated=True), "animated"), (webp(b"VP8X", ANIMATED), "animated"),
        (png() + bytes(MOST_BYTES), "more than 20,971,520 bytes"),
    ],
)  # fmt: skip
def test_what_is_no_whole_still_image_is_not_sent(data: bytes, why: str) -> None:
    image = Image(data)
    assert why in image.problem
    assert image.header is None
    with pytest.raises(OSError, match="changed"):
        image.sent  # noqa: B018


@given(st.sampled_from([png(), jpeg(3, 2), webp(b"VP8X", EXTENDED)]), st.integers(0, 40), st.binary(max_size=20))
def test_any_bytes_have_a_header_or_none(data: bytes, at: int, other: bytes) -> None:
    Image(data[:at] + other)
    assert image_in(data[:at] + other) is None or header_of(data[:at] + other) is not None


def test_a_file_is_read_when_it_is_sent_and_its_change_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(png())
    image = image_in(path)
    assert image == Image(png())
    assert image.sent["url"] == url_of(png())
    path.write_bytes(png(red=1))
    with pytest.raises(OSError, match="was changed since it was read"):
        image.sent  # noqa: B018
    missing = image_in(tmp_path / "b.png")
    assert "cannot be read" in missing.problem


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.png"
    with path.open("wb") as file:
        file.truncate(100_000_000)
    image = image_in(path)
    assert "more than" in image.problem


def test_base64_stays_in_its_text_however_it_is_written() -> None:
    data = png(5, 5, 251)
    text = url_of(data)
    start = text.index(",") + 1
    spellings = [text, text.replace("/", "\\/"), text.replace("+", "-").replace("/", "_"), text.replace("+", "%2B")]
    for spelling in spellings:
        at = spelling.index(";base64,") + 8
        assert Image(Base64(spelling, at, len(spelling))) == Image(data)
    assert Image(Base64(text, start, len(text))).source.text is text
    assert "cannot be read" in Image(Base64("abcde", 0, 5)).problem


def test_what_is_known_of_an_image_is_kept_in_copies() -> None:
    image = Image(png(), "low")
    for other in (pickle.loads(pickle.dumps(image)), copy.deepcopy(image), copy.copy(image)):
        assert (other, other.sent) == (image, image.sent)
        assert other.header == image.header
    assert image.sent["detail"] == "low"
    assert image["unseen"].endswith(", detail low")
    assert image != Image(png())
    assert "its detail is 'huge'" in Image(png(), "huge").problem


def test_images_of_pillow_and_datasets() -> None:
    assert image_in({"bytes": png(), "path": "a.png"}) == Image(png())
    assert [image_in(value) for value in ({"bytes": None, "path": "/etc/passwd"}, "a.png", b"abc", 3)] == [None] * 4
    pillow = pytest.importorskip("PIL.Image", reason="needs Pillow")
    for mode in ("RGB", "RGBA", "CMYK", "L"):
        image = image_in(pillow.new(mode, (7, 5)))
        assert image.header[:3] == ("image/png", 7, 5)
        assert image.sent["url"].startswith("data:image/png")


def test_images_in_a_column_that_the_rubric_does_not_read_are_named() -> None:
    item = {"item_id": "a", "question": "q", "answer": "b", "context": "b", "image": png(3, 2)}
    with pytest.warns(EvalkitWarning, match="images in the column 'image', which is no input of the rubric"):
        ek.plan([item], "faithfulness", "fake:strict")
    ek.plan([item | {"image": "a word"}], "faithfulness", "fake:strict")
