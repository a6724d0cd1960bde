"""What all tests share: no key, cache or setting of this machine reaches them, and no connection leaves it."""

from __future__ import annotations

import gc
import ipaddress
import logging
import os
import signal
import socket
from collections.abc import Iterator
from functools import cache
from itertools import count, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from servers import JudgeServer
    from warm_process import WarmProcess

    from evalkit.engine.cache import ReplyStore
    from evalkit.runs.registry import Registry

# Generated examples are the same in every run, so that a change is refused for what it did and not by chance.
# New ones: make test ARGS="--hypothesis-profile=search"
settings.register_profile("evalkit", deadline=None, print_blob=True, derandomize=True, max_examples=40)
settings.register_profile("search", deadline=None, print_blob=True, max_examples=1000)
settings.load_profile("evalkit")

# A script's `make test &` has Ctrl-C ignored, `nohup make test` SIGHUP, and every process that a test starts would
# have it so too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

_FOREIGN = ("EVALKIT_", "EVALUATOR_", "VERDICT_", "OPENAI_", "HF_", "HUGGING_FACE_", "LITELLM_")
_OUTSIDE = [name for name in os.environ if name.startswith(_FOREIGN) and name != "EVALKIT_DATA"]
_numbers = count()


_LAB = "doors/browser/lab/"
# xdist hands out whole files in this order; the larger ones of all others come next.
_LONG_FILES = (
    "faults/test_ray_actors", "doors/test_lighteval",
    "notebook/tuner/test_tuning_session_long", "doors/browser/test_site",
    "doors/test_packs_end_to_end", "doors/browser/test_exports", "faults/test_runs", "runs/run/test_runner_long",
    "notebook/tuner/test_tuner_controller_long",
    "notebook/runs/test_run_wizard_long", "faults/test_calls_processes",
    "runs/registry/test_plugin_sources_long", "runs/registry/test_registry_long",
    "evaluation/suggestions/test_suggesting_long", "engine/calls/test_event_loop_long", "doors/test_pages",
    "cli/test_runs_long", "lighteval/tasks/test_shipped_tasks_long", "faults/test_lighteval_ending",
    "doors/test_command_line", "doors/test_gate",
)  # fmt: skip


@cache
def _place(path: Path) -> tuple[int, int]:
    """What runs in JupyterLab first, then the notebooks, the long files, and all others by their size."""
    name = path.with_suffix("").as_posix().rpartition("/tests/")[2]
    if name.startswith(_LAB):
        return 0, 0
    if path.suffix == ".ipynb":
        return 1, 0
    return (2, _LONG_FILES.index(name)) if name in _LONG_FILES else (3, -path.stat().st_size)


def pytest_configure(config: pytest.Config) -> None:
    """Let each worker collect from another file on: a file whose assertions one has rewritten, the others only read."""
    worker = getattr(config, "workerinput", None)
    if worker is None:
        return
    files = [argument.partition("::")[0] for argument in config.args]
    names = [name for name, _ in groupby(files)]
    if len({*names}) < len(names):  # the tests of a file named twice would have another order in each worker
        return
    number = int(worker["workerid"].removeprefix("gw")) % worker["workercount"]  # one in place of a dead one goes on
    start = files.index(names[len(names) * number // worker["workercount"]])
    config.args[:] = config.args[start:] + config.args[:start]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put first what takes long: a worker that is left with it at the end keeps all waiting."""
    items.sort(key=lambda item: (_place(item.path), item.path))  # the same order in each worker


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand out whole files, and all that runs in JupyterLab to one worker: to start and to load it takes long."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Files(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return _LAB if _LAB in file else file

    return Files(config, log)


@pytest.fixture(autouse=True)
def _loggers_on() -> Iterator[None]:
    """LightEval's command line turns off every logger there is when it is imported; Inspect sets the root's level."""
    level = logging.root.level
    for name, logger in logging.root.manager.loggerDict.copy().items():  # threads of the test before may import
        if name.startswith("evalkit") and isinstance(logger, logging.Logger):
            logger.disabled = False
    yield
    logging.root.setLevel(level)


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No setting from outside, and a cache of the test's own."""
    for name in _OUTSIDE:
        monkeypatch.delenv(name, raising=False)
    # a folder that evalkit makes when it needs it: thousands of tests do not
    monkeypatch.setenv("EVALKIT_CACHE", str(tmp_path_factory.getbasetemp() / "caches" / str(next(_numbers))))


def _is_loopback(host: object) -> bool:
    if host in (None, "", "localhost", b"localhost"):
        return True
    text = host.decode() if isinstance(host, bytes) else str(host)
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return text == socket.gethostname()
    return address.is_loopback or address.is_unspecified


@pytest.fixture(autouse=True, scope="session")
def _loopback_only() -> Iterator[None]:
    """A connection to elsewhere fails at once, as on a machine without a network."""
    connect, connect_ex, look_up = socket.socket.connect, socket.socket.connect_ex, socket.getaddrinfo

    def check(family: int, address: Any) -> None:
        if family in (socket.AF_INET, socket.AF_INET6) and not _is_loopback(address[0]):
            raise OSError(f"tests reach loopback only, not {address[0]}")

    def guarded_connect(self: socket.socket, address: Any) -> None:
        check(self.family, address)
        connect(self, address)

    def guarded_connect_ex(self: socket.socket, address: Any) -> int:
        check(self.family, address)
        return connect_ex(self, address)

    def guarded_look_up(host: Any, *args: Any, **kwargs: Any) -> Any:
        if not _is_loopback(host):
            raise socket.gaierror(socket.EAI_NONAME, f"tests reach loopback only, not {host}")
        return look_up(host, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded_connect)
        patch.setattr(socket.socket, "connect_ex", guarded_connect_ex)
        patch.setattr(socket, "getaddrinfo", guarded_look_up)
        yield


@pytest.fixture(scope="session")
def published_data() -> Path:
    """The folder of published judgments that some figures are checked against; not part of the project."""
    named = os.environ.get("EVALKIT_DATA")
    folder = Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no published data: EVALKIT_DATA is {named!r} and {folder.name}/ is not beside the project")
    return folder


@pytest.fixture(scope="module")
def frozen_heap() -> Iterator[None]:
    """Keep what is there out of collections: where a model is freed, one of a large heap takes seconds."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="session")
def warm_lighteval() -> WarmProcess:
    """Starts `evalkit lighteval …` without loading the libraries again each time."""
    from warm_process import OF_LIGHTEVAL, WarmProcess

    return WarmProcess("lighteval", OF_LIGHTEVAL)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A PostgreSQL server for all tests of a worker; its URL. Each test makes a database of its own."""
    from postgres import postgres_server, tools

    if tools() is None:
        pytest.skip("no PostgreSQL on this machine (Debian: apt install postgresql)")
    pytest.importorskip("psycopg")
    with postgres_server() as url:
        yield url


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    """A judge on loopback whose answers a test sets (`servers`)."""
    from servers import judge_server

    with judge_server() as running:
        yield running


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ReplyStore]:
    """An empty store in a file."""
    from evalkit.engine.cache import ReplyStore

    opened = ReplyStore.open(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def registry(database_url: str) -> Iterator[Registry]:
    """An empty registry on SQLite, and one on PostgreSQL."""
    from evalkit.runs.registry import Registry

    opened = Registry.open(database_url)
    yield opened
    opened.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database that holds nothing: a SQLite file, or one on the PostgreSQL server."""
    if request.param == "sqlite":
        return str(tmp_path / "registry.sqlite")
    from postgres import fresh_database

    return fresh_database(request.getfixturevalue("postgres_url"), tmp_path.name)
