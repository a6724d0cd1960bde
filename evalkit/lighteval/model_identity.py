"""What answers in a LightEval run: the model's files, the commit on the Hub, the server; LightEval knows only names."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import os
import re
import sys
import sysconfig
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.request import HTTPRedirectHandler, Request, build_opener

from evalkit.core.settings import default_folder
from evalkit.errors.secrets import is_key, without_keys
from evalkit.runs.contract.imported_modules import imported_modules, is_installed

_WHOLE = 64 * 2**20  # bytes; of a larger file, hashed are its size, its time and 16 parts
_PART = 2**16
_WEIGHTS = frozenset({
    ".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".gguf", ".onnx", ".npz", ".npy", ".h5", ".pkl", ".joblib",
    ".model", ".msgpack", ".parquet", ".arrow",
})  # fmt: skip
_NOT_LOADED = re.compile(
    r"\.|optimizer|scheduler|scaler|rng_state|train(er|ing)_|events\.out|README|receipts|.*\.(log|md)$|.*_results\.json$"
)
"""What training and evaluation leave in a folder of weights, and no library loads as part of the model."""
_NOT_OWN = ("/proc", "/sys", "/dev", "/etc", "/lib", "/usr/lib", "/usr/share", "/usr/local/lib")
_NO_CHOICE = re.compile(
    r"HOME|PATH|PWD|OLDPWD|USER|LOGNAME|SHELL|SHLVL|TMPDIR|HOSTNAME|TERM|COLUMNS|LINES|LANG|DISPLAY|.*RANK|.*WORLD_SIZE"
    r"|(CUDA|LC|SLURM|NCCL|OMP|MKL|TORCH|PYTEST|PYTHON|TOKENIZERS|HF_HUB|XDG)_.*"
)
"""Variables that differ from start to start and do not choose what answers."""
_OF_SERVER = ("root", "parent", "revision", "sha", "digest", "meta")
_NAMES = ("model_name", "tokenizer", "processor", "base_model")
_REMOTE = frozenset({"provider", "inference_server_address", "endpoint_name"})
_noted: dict[str, bool] = {}  # path -> whether it was only read
_noting: list[bool] = []


def model_identity(given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What answers for a model of LightEval, as far as it can be known; equal for the same content in another place.

    Parameters
    ----------
    given
        The fields of LightEval's `ModelConfig`.

    Returns
    -------
    dict
        As plain data, and only the parts that are known:

        - ``files``: name -> hash of the content (of large files: size, time and hash of some parts). Of a folder of
          weights: what is loaded from it, the base of an adapter included. Of a custom model: its file, the modules
          that it imports (except installed ones), the files that it read while it was loaded, and the weights that
          it names.
        - ``environment``: variable whose name is written in a custom model's code -> hash of its value; no keys.
        - ``revisions``: name on the Hub -> commit in the local cache.
        - ``server``: ``address``, and what the server tells of the model.
    """
    found: dict[str, dict[str, Any]] = {"files": {}, "environment": {}, "revisions": {}, "server": {}}
    if code := given.get("model_definition_file_path"):
        _add_code(found, Path(code))
    if not _REMOTE & given.keys():
        for field in _NAMES:
            revision = given.get("revision") if field in _NAMES[:3] else None
            _add_named(found, field, given.get(field), revision, given.get("subfolder"))
        for name, value in (given.get("model_loading_kwargs") or {}).items():
            _add_named(found, name, value, None)
    found["server"] |= _server(given)
    return {part: dict(sorted(values.items())) for part, values in found.items() if values}


def identity_hash(identity: Mapping[str, Any]) -> str:
    """A short hash of what answers; empty if nothing is known."""
    text = json.dumps(identity, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16] if identity else ""


def _add_named(
    found: dict[str, dict[str, Any]], field: str, name: Any, revision: str | None, subfolder: str | None = None
) -> None:
    """Add a folder, a file, or the commit of a name on the Hub; and the base of an adapter."""
    if not isinstance(name, str) or not name:
        return
    place = Path(name).expanduser()
    if os.path.isfile(place):  # noqa: PTH113  # a Path refuses names longer than a file's may be
        found["files"][f"{field}/{place.name}"] = _fingerprint(place)
    elif os.path.isdir(place):  # noqa: PTH112
        found["files"] |= {f"{field}/{one}": _fingerprint(path) for one, path in _loaded_from(place, subfolder)}
    elif snapshot := _snapshot(name, revision or "main"):
        place, found["revisions"][name] = snapshot, snapshot.name
    if field.count("base of") < 3:
        with suppress(OSError, ValueError, AttributeError):  # it is no adapter
            adapter = json.loads((place / "adapter_config.json").read_bytes())
            _add_named(found, f"base of {field}", adapter.get("base_model_name_or_path"), adapter.get("revision"))


def _loaded_from(folder: Path, subfolder: str | None = None) -> Iterator[tuple[str, Path]]:
    """The files that libraries load from a folder of weights, by their names in it."""
    places = [folder, folder / "additional_chat_templates", *([folder / subfolder] if subfolder else [])]
    for place in places:
        for path in sorted(place.iterdir()) if place.is_dir() else ():
            if path.is_file() and not _NOT_LOADED.match(path.name):
                yield str(path.relative_to(folder)), path
                if path.name.endswith(".index.json"):
                    yield from ((part, place / part) for part in _parts(path) if (place / part).is_file())


def _parts(index: Path) -> set[str]:
    """The files of weights in deeper folders that an index names."""
    with suppress(OSError, ValueError, AttributeError):
        return {str(part) for part in json.loads(index.read_bytes())["weight_map"].values() if "/" in str(part)}
    return set()


def _snapshot(name: str, revision: str) -> Path | None:
    """The folder of a model of the Hub in the local cache, named after its commit."""
    from huggingface_hub import try_to_load_from_cache

    for file in ("config.json", "adapter_config.json"):
        with suppress(ValueError, OSError):
            path = try_to_load_from_cache(name, file, revision=revision)
            if isinstance(path, str):
                return Path(path).parent
    return None


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


def _add_code(found: dict[str, dict[str, Any]], file: Path) -> None:
    """Add what a custom model's file is made of."""
    files, trees = {file.name: file, **_modules(file)}, []
    for path in files.values():
        with suppress(OSError, ValueError, SyntaxError):
            trees.append(ast.parse(path.read_bytes()))
    texts = {node.value for tree in trees for node in ast.walk(tree)
             if isinstance(node, ast.Constant) and isinstance(node.value, str)}  # fmt: skip
    values = {name: value for name, value in os.environ.items()
              if name in texts and not (is_key(name) or _NO_CHOICE.fullmatch(name))}  # fmt: skip
    imported = {path.absolute() for path in files.values()}
    read = [path for path in map(Path, sorted(_noted)) if _noted[str(path)] and _is_own(path, file)]
    for path in read:
        beside = _weights_at(path.parent) if path.suffix == ".json" else ()  # most libraries read weights unseen
        files |= {_shown(one, file): one for one in (path, *beside) if one not in imported}
    for text in (*texts, *values.values()):
        if 1 < len(text) < 1000 and text.isprintable() and any(map(str.isalnum, text)):
            for place in (Path.cwd() / text, file.absolute().parent / text):
                with suppress(OSError):
                    files |= {_shown(one, file): one for one in _weights_at(place) if _is_own(one, file)}
    found["files"] |= {name: _fingerprint(path) for name, path in files.items() if path.is_file()}
    found["environment"] |= {name: f"sha256:{hashlib.sha256(value.encode(errors='surrogateescape')).hexdigest()[:16]}"
                             for name, value in values.items() if not value.startswith(("/", "~", "."))}  # fmt: skip


def _modules(file: Path) -> dict[str, Path]:
    """The modules of a user that a file imports, anywhere in it and in each other; not installed ones."""
    installed = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}
    return imported_modules(file, "__main__", [place or Path.cwd() for place in sys.path if place not in installed])


def _weights_at(place: Path) -> list[Path]:
    """The weights at a place: one file, or a folder's, of which a checkpoint has other files, too."""
    if place.is_file():
        return [place] if place.suffix in _WEIGHTS else []
    there = [path for _, path in _loaded_from(place)]
    weights = [path for path in there if path.suffix in _WEIGHTS]
    return there if weights and (place / "config.json").is_file() else weights


def _is_own(path: Path, file: Path) -> bool:
    """Whether a path is a user's: not installed, of the system, in a cache, or hidden."""
    path = path.absolute()
    if "snapshots" in path.parts:
        return True
    caches = [os.environ[name] for name in ("HF_HOME", "EVALKIT_LIGHTEVAL_CACHE") if os.environ.get(name)]
    roots = [*_NOT_OWN, *caches, sysconfig.get_path("stdlib"), str(default_folder()), str(Path(__file__).parents[1])]
    homes = (file.absolute().parent, Path.cwd())
    parts = next((path.relative_to(home).parts for home in homes if path.is_relative_to(home)), path.parts)
    hidden = any(part.startswith(".") for part in parts) or is_installed(path)
    return not hidden and not any(path.is_relative_to(Path(root).absolute()) for root in roots)


def _shown(path: Path, file: Path) -> str:
    """A name that is the same where the model's folder, or the Hub's cache, is in another place."""
    parts = path.absolute().parts
    at = next((at for at, part in enumerate(parts) if part.startswith("models--")), None)
    return "/".join(parts[at:]) if at is not None else os.path.relpath(path.absolute(), file.absolute().parent)


@contextmanager
def noting_files() -> Iterator[None]:
    """Within it, note which files this process reads; `model_identity` adds them for a custom model."""
    _add_hook()
    _noted.clear()
    _noting.append(True)
    try:
        yield
    finally:
        _noting.clear()


@lru_cache(maxsize=1)
def _add_hook() -> None:
    sys.addaudithook(_note)  # it stays until the process ends


def _note(event: str, args: tuple[Any, ...]) -> None:
    if event == "open" and _noting and isinstance(args[0], (str, os.PathLike)):
        with suppress(OSError, TypeError, ValueError):  # an error here would be one of the open file
            path = os.path.abspath(os.fspath(args[0]))  # noqa: PTH100
            path = importlib.util.source_from_cache(path) if path.endswith(".pyc") else path
            is_read = not (args[2] or 0) & (os.O_WRONLY | os.O_RDWR)
            _noted[path] = _noted.get(path, True) and is_read


def _server(given: Mapping[str, Any]) -> dict[str, Any]:
    """The address of the server, and what it lists about the model."""
    name = str(given.get("model_name") or "")
    address = given.get("base_url") or given.get("inference_server_address")
    if not address and "api_max_retry" in given:  # litellm takes it from a variable
        provider = re.sub(r"\W", "_", given.get("provider") or (name.partition("/")[0] if "/" in name else "openai"))
        variables = (f"{provider}_API_BASE".upper(), f"{provider}_BASE_URL".upper())
        address = next((os.environ[one] for one in variables if os.environ.get(one)), None)
    if not isinstance(address, str) or not address.startswith(("http://", "https://")):
        return {}
    sha = (given.get("model_info") or {}).get("model_sha")  # TGI tells it when it is first asked
    told = _listed(address, name, given.get("api_key")) | ({"sha": sha} if sha else {})
    return {"address": without_keys(address)} | told


class _NoRedirect(HTTPRedirectHandler):
    """The key goes to the server alone that was named."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Follow none."""


@lru_cache(maxsize=1)  # once per run: before and after the model is loaded, the same is known
def _listed(address: str, name: str, key: Any) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        asked = Request(f"{address.rstrip('/')}/models", headers=headers)  # noqa: S310  # http or https
        with build_opener(_NoRedirect).open(asked, timeout=5) as answer:
            rows = [row for row in json.load(answer)["data"] if isinstance(row, dict)]
    except (OSError, ValueError, LookupError, TypeError, HTTPException):  # a server need not list its models
        return {}
    row = next((one for one in rows if one.get("id") in (name, name.partition("/")[2])), {})
    told = {key: row[key] for key in _OF_SERVER if row.get(key) is not None}
    made = row.get("created")  # some servers give the current time
    return told | ({"created": made} if isinstance(made, int) and made < time.time() - 60 else {})
