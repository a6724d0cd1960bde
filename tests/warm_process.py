"""A process that has loaded the libraries of LightEval and forks for each run: they take most of its start.

LightEval and evalkit themselves are imported in the fork, with the fork's own environment. What the libraries read
once, `HF_HOME` and the like, is that of this process.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import select
import subprocess
import sys
import traceback
from contextlib import suppress
from pathlib import Path

LIBRARIES = (
    "torch", "transformers", "datasets", "accelerate", "litellm", "litellm.caching.caching", "sklearn.metrics", "nltk",
    "scipy.stats", "inspect_ai", "textual", "huggingface_hub.inference._client", "pandas", "aenum", "git",
    "transformers.models.llama.modeling_llama", "transformers.generation.utils",
)  # fmt: skip


def main() -> None:
    """Read one request per line from stdin, answer each with one line: the exit code."""
    sys.path.pop(0)  # the folder of this file
    for name in LIBRARIES:
        with suppress(ImportError):
            importlib.import_module(name)
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    for line in sys.stdin:
        child = os.fork()
        if not child:
            _run(json.loads(line))
        _, status = os.waitpid(child, 0)
        answers.write(f"{os.waitstatus_to_exitcode(status)}\n")


def _run(request: dict) -> None:
    """`evalkit …` in the fork, as `python -m evalkit` would run it; it does not return."""
    code = 1
    try:
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environ"])
        for number, name in enumerate(("in", "out", "err")):
            place = os.devnull if name == "in" else request[name]
            os.dup2(os.open(place, os.O_RDWR | os.O_CREAT, 0o600), number)
        sys.path[:0] = [request["folder"], *request["environ"].get("PYTHONPATH", "").split(os.pathsep)]
        sys.argv = ["evalkit", *request["words"]]
        from evalkit.cli import main as run

        code = run(request["words"])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001  # what the interpreter would print
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code or 0)


class WarmLighteval:
    """Starts `evalkit lighteval …` by forks of one process, which runs in `folder`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        own = {"HOME": str(folder), "HF_HOME": str(folder / "hf"), "HF_HUB_OFFLINE": "1", "PYTHONUTF8": "1"}
        own |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "TOKENIZERS_PARALLELISM": "false"}
        self._folder, self._n_started = folder, 0
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, __file__], cwd=folder, env=os.environ | own, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=log, text=True,
            )  # fmt: skip

    def __call__(
        self, *words: str, folder: Path, environ: dict[str, str], timeout_s: float = 240.0
    ) -> subprocess.CompletedProcess[str]:
        """What `python -m evalkit` with these words does in `folder`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._n_started += 1
        out, err = (self._folder / f"{self._n_started}.{name}" for name in ("out", "err"))
        request = {"words": words, "folder": str(folder), "environ": environ, "out": str(out), "err": str(err)}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        ready, _, _ = select.select([self._process.stdout], [], [], timeout_s)
        answer = self._process.stdout.readline() if ready else ""
        assert answer, f"no end after {timeout_s} s: {(self._folder / 'log').read_text()}{err.read_text()[-3000:]}"
        return subprocess.CompletedProcess(words, int(answer), out.read_text(), err.read_text())

    def stop(self) -> None:
        """End the process; a fork that still runs ends with it."""
        self._process.kill()
        self._process.communicate()  # closes its pipes


if __name__ == "__main__":
    main()
