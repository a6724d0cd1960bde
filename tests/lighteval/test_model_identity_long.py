"""What answers, as facts of a run: a change of the model's files, commit or address is seen, and nothing else."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evalkit.errors import ConfigError
from evalkit.lighteval.scorer_kinds import model_identity


def identity(**config: Any) -> dict[str, str]:
    return model_identity(config)


def write(place: Path, text: str | bytes = "") -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(text.encode() if isinstance(text, str) else text)
    return place


LOADED = ["config.json", "model.safetensors", "tokenizer.json", "generation_config.json", "chat_template.jinja",
          "modeling_own.py", "adapter_model.safetensors"]  # fmt: skip
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
    assert set(whole) == {f"model_name/{name}" for name in LOADED}
    for name in LOADED:
        content, state = (folder / name).read_bytes(), (folder / name).stat()
        (folder / name).write_bytes(bytes([content[0] ^ 1]) + content[1:])  # the same size, at the same time
        os.utime(folder / name, ns=(state.st_atime_ns, state.st_mtime_ns))
        changed = identity(model_name=str(folder))
        assert [one for one in whole if changed[one] != whole[one]] == [f"model_name/{name}"]
        (folder / name).write_bytes(content)
        assert identity(model_name=str(folder)) == whole, f"{name}: the same content at another time"
    for name in LEFT:
        write(folder / name, "more")
    (folder / "latest").symlink_to(folder / "nowhere")
    assert identity(model_name=str(folder)) == whole, "nor does a link to nothing count"
    folder.rename(tmp_path / "moved")
    assert identity(model_name=str(tmp_path / "moved")) == whole, "the place does not count"


def test_each_field_that_names_a_folder_is_noted(tmp_path):
    first, second = (make_checkpoint(tmp_path / f"checkpoint-{n}", n) for n in (1, 2))
    for field in ("tokenizer", "base_model", "processor"):
        both = [identity(model_name="org/m", **{field: str(one)}) for one in (first, second)]
        assert both[0] != both[1], field
    assert set(identity(model_name=str(first), subfolder="checkpoint-500")) == {"model_name/model.safetensors"}
    assert identity(model_name=str(first), provider="hub") == {}, "a name of another service is no folder"
    assert identity(model_name="a name, longer than a file's may be " * 20) == {}


def test_a_large_file_counts_by_size_time_and_parts(tmp_path, monkeypatch):
    monkeypatch.setattr("evalkit.lighteval.scorer_kinds._WHOLE", 1000)
    monkeypatch.setattr("evalkit.lighteval.scorer_kinds._PART", 10)
    place = write(tmp_path / "m" / "model.safetensors", b"\0" * 5000)
    seen = [identity(model_name=str(place.parent))]
    os.utime(place, ns=(1, 1))
    seen.append(identity(model_name=str(place.parent)))
    for index in (0, 4999):
        content = bytearray(5000)
        content[index] = 1
        place.write_bytes(content)
        os.utime(place, ns=(1, 1))
        seen.append(identity(model_name=str(place.parent)))
    place.write_bytes(b"\0" * 5001)
    os.utime(place, ns=(1, 1))
    seen.append(identity(model_name=str(place.parent)))
    assert len({json.dumps(one) for one in seen}) == len(seen)


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
    assert seen == [{"revision org/m": "a" * 40}, {"revision org/m": "b" * 40}]
    assert identity(model_name="org/m", revision="a" * 40) == seen[0]
    assert identity(model_name="org/unknown", revision="main") == {}


def test_a_custom_models_file_and_a_servers_address_without_its_password_are_noted(tmp_path):
    own = write(tmp_path / "own" / "model.py", "x = 1")
    noted = identity(model_name="parrot", model_definition_file_path=str(own))
    assert list(noted) == ["model.py"]
    write(own, "x = 2")
    assert identity(model_name="parrot", model_definition_file_path=str(own)) != noted
    for field in ("base_url", "inference_server_address"):
        remote = identity(model_name="m", provider=None, **{field: "http://user:pw-of-mine@127.0.0.1:9/v1"})
        assert list(remote) == ["server address"]
        assert "127.0.0.1:9/v1" in remote["server address"]
        assert "pw-of-mine" not in remote["server address"]


def test_a_checkpoint_that_is_written_while_it_is_loaded_is_refused(tmp_path):
    pytest.importorskip("lighteval")
    from evalkit.lighteval.patches import _loading

    folder = make_checkpoint(tmp_path / "last", 5)
    config = SimpleNamespace(model_dump=lambda: {"model_name": str(folder)})

    def load(*_: Any) -> None:
        write(folder / "model.safetensors", "the next step")

    with pytest.raises(ConfigError, match=r"'model_name/model.safetensors' changed while the model was loaded; run"):
        _loading(load, SimpleNamespace(), config, None)
