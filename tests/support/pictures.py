"""Small images, made byte by byte."""

from __future__ import annotations

import base64
import struct
import zlib


def png(width: int = 3, height: int = 2, red: int = 0, *, animated: bool = False) -> bytes:
    """A PNG of one colour."""
    rows = (b"\0" + bytes([red, 0, 0]) * width) * height
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    frames = _chunk(b"acTL", struct.pack(">II", 2, 0)) if animated else b""
    body = _chunk(b"IHDR", head) + frames + _chunk(b"IDAT", zlib.compress(rows)) + _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def jpeg(width: int, height: int, *, rotated: bool = False) -> bytes:
    """The segments of a JPEG: perhaps EXIF that rotates it, a table, the size, and an end."""
    exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"
    segments = [(0xE1, exif)] if rotated else []
    size = struct.pack(">BHHB", 8, height, width, 1) + b"\x01\x11\0"
    segments += [(0xC4, b"\0" * 17), (0xC2, size), (0xDA, b"\x01\x01\0\0?\0")]
    body = b"".join(b"\xff" + bytes([kind]) + struct.pack(">H", len(data) + 2) + data for kind, data in segments)
    return b"\xff\xd8" + body + b"\x12\x34\xff\xd9"


def webp(form: bytes, data: bytes) -> bytes:
    """A WebP of one chunk."""
    body = b"WEBP" + form + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


def url_of(data: bytes, media: str = "image/png") -> str:
    """A ``data:`` URL."""
    return f"data:{media};base64,{base64.b64encode(data).decode()}"
