"""A process that has loaded libraries and forks for each command `evalkit …`: loading them takes most of its start.

What they read once at their start, such as `HF_HOME`, is that of this process. LightEval is imported in the fork, with
the fork's own environment.
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
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

OF_EVALKIT = (
    "scipy.stats", "pyarrow", "jinja2.sandbox", "httpx2", "evalkit.cli.main_command", "evalkit.gate.runner",
    "evalkit.gate.reports", "evalkit.evaluation.evaluating", "evalkit.engine.calls.event_loop",
    "evalkit.engine.providers.openai", "evalkit.stats.comparison.drifts",
)  # fmt: skip
OF_LIGHTEVAL = (
    "torch", "transformers", "datasets", "accelerate", "litellm", "litellm.caching.caching", "sklearn.metrics", "nltk",
    "scipy.stats", "inspect_ai", "textual", "huggingface_hub.inference._client", "pandas", "aenum", "git",
    "transformers.models.llama.modeling_llama", "transformers.generation.utils",
)  # fmt: skip


def main() -> None:
    """Read one request per line from stdin, answer each with one line: the exit code."""
    sys.path.pop(0)  # the folder of this file
    for name in sys.argv[1:]:
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
            os.dup2(os.open(request[name], os.O_RDWR | os.O_CREAT, 0o600), number)
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


class WarmProcess:
    """Starts commands `evalkit …` by forks of one process, which runs in `folder` and has loaded these libraries."""

    def __init__(self, folder: Path, libraries: Sequence[str]) -> None:
        folder.mkdir(parents=True)
        own = {"HOME": str(folder), "HF_HOME": str(folder / "hf"), "HF_HUB_OFFLINE": "1", "PYTHONUTF8": "1"}
        own |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "TOKENIZERS_PARALLELISM": "false"}
        self._folder, self._n_started = folder, 0
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, __file__, *libraries], cwd=folder, env=os.environ | own, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=log, text=True,
            )  # fmt: skip

    def __call__(
        self, *words: str, folder: Path, environ: dict[str, str], stdin: str | None = None, timeout_s: float = 240.0
    ) -> subprocess.CompletedProcess[str]:
        """What `python -m evalkit` with these words does in `folder`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._n_started += 1
        text, out, err = (self._folder / f"{self._n_started}.{name}" for name in ("in", "out", "err"))
        text.write_text(stdin or "", encoding="utf-8")
        request = {"words": words, "folder": str(folder), "environ": environ}
        request |= {"in": str(text), "out": str(out), "err": str(err)}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answers = select.poll()  # not select.select: a worker of pytest may have more than 1,024 files open
        answers.register(self._process.stdout, select.POLLIN)
        answer = self._process.stdout.readline() if answers.poll(1000 * timeout_s) else ""
        assert answer, f"no end after {timeout_s} s: {(self._folder / 'log').read_text()}{err.read_text()[-3000:]}"
        said = (place.read_text(encoding="utf-8") for place in (out, err))
        return subprocess.CompletedProcess(words, int(answer), *said)

    def stop(self) -> None:
        """End the process; a fork that still runs ends with it."""
        self._process.kill()
        self._process.communicate()  # closes its pipes


if __name__ == "__main__":
    main()
