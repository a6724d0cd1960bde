"""What answers enters the key of stored answers: a change of anything that decides it is seen, and nothing else."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest

from evalkit.errors import ConfigError
from evalkit.lighteval.model_identity import identity_hash, model_identity, noting_files

MODEL = "model_definition_file_path"


def identity(**given: Any) -> dict[str, Any]:
    return model_identity(given)


def write(place: Path, text: str | bytes = "") -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(text.encode() if isinstance(text, str) else text)
    return place


LOADED = ["config.json", "model.safetensors", "tokenizer.json", "generation_config.json", "chat_template.jinja",
          "modeling_own.py", "additional_chat_templates/tool.jinja", "adapter_model.safetensors"]  # fmt: skip
LEFT = ["optimizer.pt", "scheduler.pt", "rng_state_0.pth", "trainer_state.json", "training_args.bin", "run.log",
        "events.out.tfevents.1", "checkpoint-500/model.safetensors", "runs/events.out", "README.md", ".lock",
        "eval_results.json", "results/m/results_1.json", "details/x.parquet", "receipts.json"]  # fmt: skip


def make_checkpoint(folder: Path, seed: int) -> Path:
    choose = random.Random(seed)
    for name in (*LOADED, *LEFT):
        write(folder / name, choose.randbytes(choose.randint(1, 300)))
    return folder


def test_every_file_that_is_loaded_counts_and_none_that_training_leaves(tmp_path):
    folder = make_checkpoint(tmp_path / "last", 1)
    whole = identity(model_name=str(folder))
    for name in LOADED:
        content, state = (folder / name).read_bytes(), (folder / name).stat()
        (folder / name).write_bytes(bytes([content[0] ^ 1]) + content[1:])  # the same size, at the same time
        os.utime(folder / name, ns=(state.st_atime_ns, state.st_mtime_ns))
        assert identity(model_name=str(folder)) != whole, name
        (folder / name).write_bytes(content)
        assert identity(model_name=str(folder)) == whole, f"{name}: the same content at another time"
    for name in LEFT:
        write(folder / name, "more")
    assert identity(model_name=str(folder)) == whole
    (folder / "latest").symlink_to(folder / "nowhere")
    assert identity(model_name=str(folder)) == whole, "a link to nothing"


def test_checkpoints_of_one_folder_and_of_one_name_are_told_apart_and_copies_are_not(tmp_path):
    first, second = (make_checkpoint(tmp_path / f"checkpoint-{n}", n) for n in (1, 2))
    link = tmp_path / "last"
    seen = []
    for target in (first, second, first):
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        seen.append(identity(model_name=str(link)))
    assert seen[0] == seen[2] != seen[1]
    assert identity(model_name=str(first)) == seen[0], "the place does not count"
    first.rename(tmp_path / "moved")
    assert identity(model_name=str(tmp_path / "moved")) == seen[0]
    for field in ("tokenizer", "base_model", "processor"):
        both = [identity(model_name="org/m", **{field: str(one)}) for one in (tmp_path / "moved", second)]
        assert both[0] != both[1], field
    loading = [identity(model_name="m", model_loading_kwargs={"own": str(one)}) for one in (second, tmp_path / "moved")]
    assert loading[0] != loading[1]
    parts = [identity(model_name=str(second), subfolder=name)["files"] for name in (None, "checkpoint-500")]
    assert set(parts[1]) - set(parts[0]) == {"model_name/checkpoint-500/model.safetensors"}


def test_the_base_of_an_adapter_and_shards_in_deeper_folders_count(tmp_path):
    base = make_checkpoint(tmp_path / "base", 3)
    folder = tmp_path / "lora"
    write(folder / "adapter_config.json", json.dumps({"base_model_name_or_path": str(base)}))
    write(
        folder / "model.safetensors.index.json", json.dumps({"weight_map": {"a": "shards/1.bin", "b": "shards/2.bin"}})
    )
    write(folder / "shards" / "1.bin", "one")
    was = identity(model_name=str(folder))
    write(base / "model.safetensors", "other base")
    changed = identity(model_name=str(folder))
    assert changed != was
    write(folder / "shards" / "1.bin", "two")
    assert identity(model_name=str(folder)) != changed
    write(folder / "adapter_config.json", "{")  # cut short
    assert identity(model_name=str(folder)) != changed


def test_a_large_file_counts_by_size_time_and_parts(tmp_path, monkeypatch):
    monkeypatch.setattr("evalkit.lighteval.model_identity._WHOLE", 1000)
    monkeypatch.setattr("evalkit.lighteval.model_identity._PART", 10)
    place = write(tmp_path / "m" / "model.safetensors", b"\0" * 5000)
    seen = [identity(model_name=str(place.parent))]
    os.utime(place, ns=(1, 1))
    seen.append(identity(model_name=str(place.parent)))
    for at in (0, 4999):
        content = bytearray(5000)
        content[at] = 1
        place.write_bytes(content)
        os.utime(place, ns=(1, 1))
        seen.append(identity(model_name=str(place.parent)))
    place.write_bytes(b"\0" * 5001)
    os.utime(place, ns=(1, 1))
    seen.append(identity(model_name=str(place.parent)))
    assert len({json.dumps(one) for one in seen}) == len(seen)


IMPORTS: list[tuple[str, str]] = [
    ("import helper", "helper.py"),
    ("from helper import say", "helper.py"),
    ("def f():\n    import helper as h", "helper.py"),
    ("try:\n    import helper\nexcept ImportError:\n    helper = None", "helper.py"),
    ("import package.inner", "package/inner.py"),
    ("from package import inner", "package/inner.py"),
    ("from package.inner import x", "package/__init__.py"),
    ("from package import chain", "package/end.py"),  # chain imports .end
    ("import package", "package/deep/__init__.py"),  # package imports .deep
    ("import helper", "second.py"),  # helper imports second
    ("class A:\n    def f(self):\n        from package.deep.lowest import y", "package/deep/lowest.py"),
]  # fmt: skip


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name, text in {
        "helper.py": "import second\ndef say(): ...", "second.py": "", "other.py": "",
        "package/__init__.py": "from . import deep", "package/inner.py": "x = 1", "package/end.py": "z = 1",
        "package/chain.py": "from .end import z",
        "package/deep/__init__.py": "", "package/deep/lowest.py": "y = 1", "package/unused.py": "",
    }.items():  # fmt: skip
        write(tmp_path / name, text)
    return tmp_path


@pytest.mark.parametrize(("code", "file"), IMPORTS)
def test_what_a_custom_model_imports_counts_at_any_depth(project, code, file):
    own = write(project / "model.py", f"import json, numpy\n{code}\n")
    was = identity(**{MODEL: str(own)})
    assert not any("json" in name or "numpy" in name for name in was["files"]), "installed packages have versions"
    for unused in ("other.py", "package/unused.py", "out/results.json"):
        write(project / unused, "changed = 1")
    assert identity(**{MODEL: str(own)}) == was
    write(project / file, (project / file).read_text() + "\nchanged = 1")
    assert identity(**{MODEL: str(own)}) != was


def read_text(place: Path) -> object:
    return place.read_text()


def read_through_library(place: Path) -> object:
    import numpy as np

    return np.fromfile(place)


@pytest.mark.parametrize("read", [read_text, read_through_library])
def test_what_a_custom_model_reads_while_it_is_loaded_counts(tmp_path, read: Callable[[Path], object]):
    own, prompt, log = (
        write(tmp_path / "model.py"),
        write(tmp_path / "prompt.txt", "be kind"),
        tmp_path / "out" / "log.txt",
    )

    def load() -> dict[str, Any]:
        with noting_files():
            read(prompt)
            with write(log, "begun").open("a") as file:
                file.write(str(time.time_ns()))
            log.read_text()  # what the model itself wrote
        return identity(**{MODEL: str(own)})

    was = load()
    assert set(was["files"]) == {"model.py", "prompt.txt"}
    assert load() == was
    write(prompt, "be rude")
    assert load() != was


def test_weights_and_variables_that_a_custom_model_names_count(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = "import os\nA = 'w.safetensors'\nB = 'ck'\nC = os.environ['CK_FOLDER']\nD = os.getenv('STYLE', 'x')\n"
    own = write(tmp_path / "own" / "model.py", f"{code}E = os.environ.get('OWN_API_KEY')\nF = 'notes.txt'\nG = 'out'\n")
    monkeypatch.setenv("CK_FOLDER", str(tmp_path / "by-variable"))
    monkeypatch.setenv("STYLE", "kind")
    monkeypatch.setenv("OWN_API_KEY", "sk-planted-1")
    names = ("own/w.safetensors", "ck/config.json", "ck/model.bin", "ck/tokenizer.json", "by-variable/m.gguf")
    weights = [write(tmp_path / name, "1") for name in names]
    seen = [identity(**{MODEL: str(own)})]
    for place in weights:
        write(place, "2")
        seen.append(identity(**{MODEL: str(own)}))
    monkeypatch.setenv("STYLE", "rude")
    seen.append(identity(**{MODEL: str(own)}))
    assert len({json.dumps(one) for one in seen}) == len(seen)
    monkeypatch.setenv("OWN_API_KEY", "sk-planted-2")
    for name in ("notes.txt", "out/answers.jsonl"):
        write(tmp_path / name, "a log")
    assert identity(**{MODEL: str(own)}) == seen[-1]
    assert "planted" not in json.dumps(seen)


def test_a_name_on_the_hub_has_the_commit_of_the_local_cache(tmp_path, monkeypatch):
    import huggingface_hub

    place = tmp_path / "hub" / "models--org--m"
    for commit in ("a" * 40, "b" * 40):
        write(place / "snapshots" / commit / "config.json", "{}")
    plain = huggingface_hub.try_to_load_from_cache
    monkeypatch.setattr(
        huggingface_hub, "try_to_load_from_cache",
        lambda name, file, revision: plain(name, file, cache_dir=tmp_path / "hub", revision=revision),
    )  # fmt: skip
    seen = []
    for commit in ("a" * 40, "b" * 40):
        write(place / "refs" / "main", commit)
        seen.append(identity(model_name="org/m", revision="main"))
    assert [one["revisions"] for one in seen] == [{"org/m": "a" * 40}, {"org/m": "b" * 40}]
    assert identity(model_name="org/m", revision="a" * 40) == seen[0]
    assert identity(model_name="org/unknown", revision="main") == {}
    assert identity(model_name="parrot", **{MODEL: str(write(tmp_path / "m.py"))}).keys() == {"files"}


@contextmanager
def listing(rows: Any, status: int = 200) -> Iterator[tuple[str, list[str]]]:
    """A server that lists its models; its address, and the keys that it was sent."""
    keys: list[str] = []

    class Listing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            keys.append(self.headers.get("Authorization", ""))
            body = json.dumps({"data": rows}).encode()
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "http://127.0.0.1:9/models")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Listing)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", keys
    finally:
        server.shutdown()
        server.server_close()


def test_what_a_server_tells_of_a_model_counts_and_its_clock_does_not(monkeypatch):
    now = int(time.time())
    same = {"id": "m", "root": "/ck-1", "created": now, "permission": [{"id": "by chance"}]}
    told = [same, same | {"created": now + 5, "permission": []}, same | {"root": "/ck-2"},
            same | {"created": now - 9999}, {"id": "m", "meta": {"size": 7}}, {"id": "m"}, {"id": "other"}]  # fmt: skip
    found = []
    for row in told:
        with listing([{"id": "x", "root": "/x"}, row]) as (url, keys):
            found.append(identity(model_name="openai/m", provider=None, base_url=url, api_key="k-1", api_max_retry=1))
            assert keys == ["Bearer k-1"]
            assert found[-1]["server"].pop("address") == url
    assert found[0] == found[1]
    assert [len(one["server"]) for one in found] == [1, 1, 1, 2, 1, 0, 0]
    assert found[0] != found[2] != found[4]
    for status in (404, 500, 302):
        with listing([], status) as (url, _):
            assert identity(model_name="m", provider=None, base_url=url)["server"] == {"address": url}
    for rows in ({"a": 1}, ["m"], None):
        with listing(rows) as (url, _):
            assert identity(model_name="m", provider=None, base_url=url)["server"] == {"address": url}
    tgi = {"model_name": "m", "inference_server_address": "http://127.0.0.1:9"}
    told = [identity(**tgi, model_info=info)["server"] for info in (None, {"model_sha": "a"}, {"model_sha": "b"})]
    assert [one.get("sha") for one in told] == [None, "a", "b"]
    gone = identity(model_name="m", provider=None, base_url="http://user:pw-of-mine@127.0.0.1:9/v1")
    assert "pw-of-mine" not in json.dumps(gone)
    remote = {"model_name": "openai/m", "provider": None, "api_max_retry": 1, "base_url": None}
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert identity(**remote) == {}, "a hosted model: nothing more than its name is known"
    assert identity_hash({}) == ""
    with listing([{"id": "m"}]) as (url, _):
        monkeypatch.setenv("OPENAI_API_BASE", url)
        assert identity(**remote)["server"] == {"address": url}


def test_a_checkpoint_that_is_written_while_it_is_loaded_is_refused(tmp_path):
    pytest.importorskip("lighteval")
    from evalkit.lighteval.patches import _loading

    folder = make_checkpoint(tmp_path / "last", 5)
    config = SimpleNamespace(model_dump=lambda: {"model_name": str(folder)})

    def load(*_: Any) -> None:
        write(folder / "model.safetensors", "the next step")

    with pytest.raises(ConfigError, match=r"'model_name/model.safetensors' changed while the model was loaded; run"):
        _loading([""], load, SimpleNamespace(), config, None)
