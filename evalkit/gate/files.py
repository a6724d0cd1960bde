"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from evalkit.errors import InputError

__all__ = ["write_whole"]


def write_whole(path: str | Path, chunks: Iterable[bytes], *, mode: int | None = None) -> None:
    """Write a file beside its place and move it there: after a crash or on a full disk the old file stands.

    Parameters
    ----------
    path
        Replaced if it is there; a link stays a link. What is no file (``/dev/stdout``, a pipe) is written to as it is.
    chunks
        The content, taken one after another.
    mode
        Permissions of a new file; a file that is replaced keeps its own.

    Raises
    ------
    InputError
        When it cannot be written: then it is as it was.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_whole(f"{folder}/a", [b"30 ", b"days"])
    ...     Path(folder, "a").read_text(), len(list(Path(folder).iterdir()))
    ('30 days', 1)
    """
    place = Path(os.path.realpath(path))
    scratch = place.with_name(f".{place.name}.{os.getpid()}.{secrets.token_hex(4)}")
    given = Path(path)
    is_stream = given.exists() and not given.is_dir() and (not given.is_file() or given.parts[:2] == ("/", "dev"))
    try:
        if is_stream:
            with given.open("wb") as out:
                out.writelines(chunks)
            return
        with scratch.open("xb") as out:
            out.writelines(chunks)
            out.flush()
            os.fsync(out.fileno())
        if place.is_file() or mode is not None:
            scratch.chmod(place.stat().st_mode & 0o777 if place.is_file() else mode or 0)
        scratch.replace(place)
    except OSError as problem:
        raise InputError(f"{path} cannot be written: {(problem.strerror or str(problem)).lower()}") from None
    finally:
        with suppress(OSError):  # what is said above is the fault; a scratch file that cannot be removed is none
            scratch.unlink(missing_ok=True)
