"""A process that has loaded libraries and forks for each command `evalkit …`: loading them takes most of its start.

All workers of a run of tests share it; it ends with the run.
What they read once at their start, such as `HF_HOME`, is that of this process; `HF_DATASETS_CACHE` is the fork's own.
What of LightEval reads its environment is imported in the fork.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import runpy
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import types
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from warm_client import ask

OF_EVALKIT = (
    "scipy.stats", "pyarrow", "jinja2.sandbox", "httpx2", "evalkit.cli.main_command", "evalkit.gate.runner",
    "evalkit.gate.reports", "evalkit.evaluation.evaluating", "evalkit.engine.calls.event_loop",
    "evalkit.engine.providers.openai", "evalkit.stats.comparison.compare_evaluations", "sqlalchemy.dialects.sqlite",
    "evalkit.runs.run.runner",
)  # fmt: skip
OF_KERNEL = (
    *OF_EVALKIT, "ipykernel.ipkernel", "ipykernel.kernelapp", "evalkit.notebook.judgments.judgment_browser",
    "evalkit.notebook.runs.run_wizard", "evalkit.notebook.start.start_card", "evalkit.notebook.together.label_page",
    "evalkit.notebook.tuner.rubric_tuner",
)  # fmt: skip
OF_LIGHTEVAL = (
    "torch", "transformers", "datasets", "accelerate", "litellm", "litellm.caching.caching", "sklearn.metrics", "nltk",
    "scipy.stats", "inspect_ai", "textual", "huggingface_hub.inference._client", "pandas", "aenum", "git",
    "transformers.models.llama.modeling_llama", "transformers.generation.utils", "latex2sympy2_extended", "diskcache",
    "lighteval.metrics",
)  # fmt: skip


# xdist's name of the run and its first process, which starts the workers; else this process alone
_RUN = os.environ.get("PYTEST_XDIST_TESTRUNUID", secrets.token_hex(8))[:16]
_PROCESS = os.getppid() if "PYTEST_XDIST_TESTRUNUID" in os.environ else os.getpid()


def main() -> None:
    """Fork for each request on the socket that is stdin, until the run of tests has ended."""
    sys.path.pop(0)  # the folder of this file
    folder, run = Path.cwd(), int(sys.argv[1])
    log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):  # they began as pipes: Python takes them for what cannot seek, as those of a fork may be
        os.dup2(log, stream)
    for name in sys.argv[2:]:
        with suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()  # forks share the memory
    gc.get_freeze_count = lambda: 1  # to count a million objects takes longer than many a fork
    with socket.socket(fileno=os.dup(0)) as listener:
        while _is_running(run):
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            if select.select([listener], [], [], 1.0)[0]:
                asking = listener.accept()[0]
                if not os.fork():
                    listener.close()
                    _answer(asking)
                asking.close()
    shutil.rmtree(folder, ignore_errors=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def _answer(asking: socket.socket) -> None:
    """Fork, pass signals on to the fork, send its exit code, and end it with the one who asks; it does not return."""
    streams = socket.recv_fds(asking, 1, 3)[1]
    request = json.loads(asking.makefile("r", encoding="utf-8").readline())
    child = os.fork()
    if not child:
        _run(request, streams)
    for stream in (0, *streams):
        os.close(stream)

    def pass_on() -> None:
        with suppress(OSError):
            while number := asking.recv(1):
                os.kill(child, number[0])
        os.kill(child, signal.SIGKILL)

    threading.Thread(target=pass_on, daemon=True).start()
    with suppress(OSError):
        asking.sendall(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n".encode())
    os._exit(0)


def _run(request: dict, streams: list[int]) -> None:
    """The words in the fork, as `python` or `python -m evalkit` would run them; it does not return."""
    code = 1
    try:
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environ"])
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        sys.path[:0] = [request["folder"], *request["environ"].get("PYTHONPATH", "").split(os.pathsep)]
        if "PYTHONUNBUFFERED" in os.environ:
            sys.stdout.reconfigure(write_through=True)
        if "datasets" in sys.modules and "HF_DATASETS_CACHE" in os.environ:
            sys.modules["datasets"].config.HF_DATASETS_CACHE = Path(os.environ["HF_DATASETS_CACHE"])
        if "ipykernel_launcher" in request["words"]:
            import pandas as pd

            pd.options.display.max_columns = 20  # as where pandas is imported in a kernel
        if request["lighteval"]:
            from evalkit.runs.processes import lighteval_command
            from evalkit.runs.run.runner import Runner

            lighteval_command.LIGHTEVAL = tuple(request["lighteval"])
            Runner.__init__.__kwdefaults__["command"] = request["lighteval"]
        code = _start(request["words"])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        traceback.print_exc()
        code = -signal.SIGINT
    except BaseException:  # noqa: BLE001  # what the interpreter would print
        traceback.print_exc()
    finally:
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        if code == -signal.SIGINT:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        os._exit(code or 0)


def _start(words: list[str]) -> int:
    """Run ``-c CODE …`` or ``-m MODULE …`` as Python does, all else as `evalkit`; the exit code."""
    option, *given = words
    sys.argv = ["evalkit", *words]
    if option == "-c":
        sys.argv = ["-c", *given[1:]]
        made = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(given[0], "<string>", "exec"), vars(made))  # the code of a test
        return 0
    if option == "-m":
        sys.argv = given
        runpy.run_module(given[0], run_name="__main__", alter_sys=True)
        return 0
    from evalkit.cli import main as run

    return run(words)


class WarmProcess:
    """Starts commands `evalkit …` by forks of the one process of this name, which has loaded these libraries.

    They are looked for in `path` first.
    """

    def __init__(self, name: str, libraries: Sequence[str], path: str = "") -> None:
        self._folder, self._numbers = Path(tempfile.gettempdir(), f"evalkit-{_RUN}-{name}"), count(1)
        self._place = str(self._folder / "asked")
        self.hub = self._folder / "hf" / "hub"
        try:
            self._folder.mkdir()
        except FileExistsError:  # another worker starts it
            while not Path(self._place).exists():
                time.sleep(0.01)
        else:
            self._start(libraries, path)

    def _start(self, libraries: Sequence[str], path: str) -> None:
        folder, making = self._folder, str(self._folder / "making")
        own = {"HOME": str(folder), "HF_HOME": str(folder / "hf"), "HF_HUB_OFFLINE": "1", "PYTHONUTF8": "1"}
        own |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "TOKENIZERS_PARALLELISM": "false"}
        own["PYTHONPATH"] = os.pathsep.join(filter(None, [path, os.environ.get("PYTHONPATH")]))
        (folder / "log").touch()
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(making)
            listener.listen(64)
            Path(making).rename(self._place)  # whoever sees it can connect
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(_PROCESS), *libraries], cwd=folder, env=os.environ | own,
                stdin=listener, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip

    def command(self, *words: str) -> list[str]:
        """Starts a small process that asks for a fork, passes signals on to it, and ends as it does.

        The words are ``-c``, code and arguments, ``-m``, a module and arguments, or those of `evalkit`. SIGKILL ends
        the fork as well; SIGSTOP stops the small process alone.
        """
        return [sys.executable, "-I", str(Path(__file__).with_name("warm_client.py")), self._place, *words]

    def kernel(self, lighteval: Sequence[str] = ()) -> dict[str, Any]:
        """What Jupyter starts as the kernel `python3`: a fork, which starts this command for LightEval."""
        argv = [*self.command("-m", "ipykernel_launcher"), "-f", "{connection_file}"]
        named = {"display_name": "python3", "language": "python", "env": {"WARM_LIGHTEVAL": json.dumps(lighteval)}}
        return {"argv": argv, **named}

    def kernels(self) -> str:
        """A folder for JUPYTER_PATH, with this kernel."""
        folder = self._folder / f"jupyter-{os.getpid()}-{next(self._numbers)}"
        spec = folder / "kernels" / "python3"
        spec.mkdir(parents=True)
        (spec / "kernel.json").write_text(json.dumps(self.kernel()))
        return str(folder)

    def __call__(
        self,
        *words: str,
        folder: Path,
        environ: dict[str, str],
        stdin: str | None = None,
        timeout_s: float = 240.0,
        lighteval: Sequence[str] = (),
    ) -> subprocess.CompletedProcess[str]:
        """What `python -m evalkit` with these words does in `folder`; its runs start this command for LightEval."""
        number = f"{os.getpid()}-{next(self._numbers)}"
        text, out, err = (self._folder / f"{number}.{name}" for name in ("in", "out", "err"))
        text.write_text(stdin or "", encoding="utf-8")
        request = {"words": words, "folder": str(folder), "environ": environ, "lighteval": lighteval}
        with text.open("rb") as given, out.open("wb") as said, err.open("wb") as told:
            streams = [stream.fileno() for stream in (given, said, told)]
            with socket.socket(socket.AF_UNIX) as asked:
                asked.settimeout(timeout_s)
                answer = ask(asked, self._place, request, streams)
        assert answer, f"no end after {timeout_s} s: {(self._folder / 'log').read_text()}{err.read_text()[-3000:]}"
        both = (place.read_text(encoding="utf-8") for place in (out, err))
        return subprocess.CompletedProcess(words, int(answer), *both)


if __name__ == "__main__":
    main()
