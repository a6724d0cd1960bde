"""What answers in a LightEval run, for its record: the model's files, the commit on the Hub, the server's address."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from evalkit.errors.secrets import without_keys

_WHOLE = 64 * 2**20  # bytes; of a larger file, hashed are its size, its time and 16 parts
_PART = 2**16
_NOT_LOADED = re.compile(
    r"\.|optimizer|scheduler|scaler|rng_state|train(er|ing)_|events\.out|README|receipts|.*\.(log|md)$|.*_results\.json$"
)
"""What training and evaluation leave in a folder of weights, and no library loads as part of the model."""
_FIELDS = ("model_name", "tokenizer", "processor", "base_model")
_REMOTE = frozenset({"provider", "inference_server_address", "endpoint_name"})


def model_identity(config: Mapping[str, Any]) -> dict[str, str]:
    """What answers for a model of LightEval, as far as its config shows it; equal for the same content elsewhere.

    Parameters
    ----------
    config
        The fields of LightEval's `ModelConfig`.

    Returns
    -------
    dict
        Only what is known:

        - name of a file -> hash of its content (of files above 64 MiB: size, time and hash of 16 parts): the files of a
          folder of weights, and the file of a custom model, without what it imports or reads;
        - ``revision NAME`` -> commit of a name on the Hub, in the local cache;
        - ``server address`` -> the address that the config names, without a key.
    """
    code, address = config.get("model_definition_file_path"), config.get("base_url")
    facts = {Path(code).name: _fingerprint(Path(code))} if code else {}
    for field in () if _REMOTE & config.keys() else _FIELDS:
        name = str(config.get(field) or "")
        folder = Path(name).expanduser() / (config.get("subfolder") or "" if field == "model_name" else "")
        if name and os.path.isdir(folder):  # noqa: PTH112  # a Path refuses names longer than a file's may be
            facts |= {f"{field}/{path.name}": _fingerprint(path) for path in _loaded_from(folder)}
        elif name and (commit := _commit(name, config.get("revision") or "main")):
            facts[f"revision {name}"] = commit
    if address := address or config.get("inference_server_address"):
        facts["server address"] = without_keys(str(address))
    return dict(sorted(facts.items()))


def _loaded_from(folder: Path) -> Iterator[Path]:
    """The files that libraries load from a folder of weights."""
    yield from (path for path in folder.iterdir() if path.is_file() and not _NOT_LOADED.match(path.name))


def _commit(name: str, revision: str) -> str:
    """The commit of a model of the Hub in the local cache; blank if it is not there."""
    from huggingface_hub import try_to_load_from_cache

    for file in ("config.json", "adapter_config.json"):
        with suppress(ValueError, OSError):
            path = try_to_load_from_cache(name, file, revision=revision)
            if isinstance(path, str):
                return Path(path).parent.name
    return ""


def _fingerprint(path: Path) -> str:
    """The hash of a file; of a large one its size, time and the hash of some parts."""
    some = hashlib.sha256()
    try:
        with path.open("rb") as file:
            state = os.fstat(file.fileno())
            if state.st_size <= _WHOLE:
                return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
            for number in range(16):
                file.seek((state.st_size - _PART) * number // 15)
                some.update(file.read(_PART))
    except OSError as problem:  # no library can load it, either
        return f"cannot be read: {problem.strerror}"
    return f"{state.st_size} bytes of {state.st_mtime_ns}, some sha256:{some.hexdigest()}"
