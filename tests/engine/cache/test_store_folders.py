"""Which folder the store is in, and which folders cannot hold it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cache_setup import parts, reply

from evalkit.core import files
from evalkit.core.files import network_file_system
from evalkit.core.settings import default_folder
from evalkit.engine.cache import ReplyStore
from evalkit.errors import CacheError

MOUNTS = """\
/dev/vda / ext4 rw 0 0
proc /proc proc rw 0 0
server:/home /home nfs4 rw 0 0
/dev/vdb /home/ann/scratch xfs rw 0 0
//nas/share /mnt/my\\040share cifs rw 0 0
ann@host: /mnt/far fuse.sshfs rw 0 0
portal /run/doc fuse.portal rw 0 0
/dev/vdc /data ext4 rw 0 0
nas:/data /data nfs rw 0 0
short line
"""


@pytest.mark.parametrize(
    ("path", "network"),
    [
        ("/var/cache", None),
        ("/home/ann/cache", "nfs4 at /home"),
        ("/home", "nfs4 at /home"),
        ("/home/ann/scratch/cache", None),  # a local disk below a network one
        ("/homework", None),  # a prefix of the text, not of the path
        ("/mnt/my share/x", "cifs at /mnt/my share"),
        ("/mnt/far/x", "fuse.sshfs at /mnt/far"),
        ("/run/doc/x", None),  # FUSE, but on this machine
        ("/data/x", "nfs at /data"),  # mounted over a local one
    ],
)
def test_network_file_systems_are_found(path: str, network: str | None) -> None:
    assert network_file_system(Path(path), MOUNTS) == network


def test_no_mount_table_is_no_network() -> None:
    assert network_file_system(Path("/home/x"), "") is None


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/mounts")
def test_this_machines_mounts_are_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert network_file_system(Path("/proc/self")) is None
    monkeypatch.setattr(files, "_NETWORK", {"proc"})
    assert network_file_system(Path("/proc")) == "proc at /proc"


def test_a_store_on_a_network_is_refused_and_nothing_is_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = network_file_system
    name = "evalkit.engine.cache.opened_stores.network_file_system"
    monkeypatch.setattr(name, lambda path: found(path, f"nas:/x {tmp_path} nfs4 rw 0 0"))
    with pytest.raises(CacheError, match=r"network file system \(nfs4 at .*set EVALKIT_CACHE to a local folder"):
        ReplyStore.open(tmp_path / "cache")
    assert list(tmp_path.iterdir()) == []


def test_variable_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.setenv("EVALKIT_CACHE", str(tmp_path / "named"))
    assert default_folder(tmp_path) == tmp_path / "named"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVALKIT_CACHE", "relative")
    assert default_folder() == tmp_path / "relative"


def test_project_next(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EVALKIT_CACHE", "  ")  # blank is unset
    deep = tmp_path / "project" / "notebooks" / "deep"
    deep.mkdir(parents=True)
    (tmp_path / "pyproject.toml").touch()
    assert default_folder(deep) == tmp_path / "cache"
    (tmp_path / "project" / "pyproject.toml").touch()  # the nearest one
    assert default_folder(deep) == tmp_path / "project" / "cache"
    monkeypatch.chdir(deep)
    assert default_folder() == tmp_path / "project" / "cache"
    assert not (tmp_path / "project" / "cache").exists()


def test_user_folder_last(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("EVALKIT_CACHE")
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    monkeypatch.setattr(Path, "is_file", lambda self: False)  # no project anywhere above
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert default_folder(tmp_path) == tmp_path / "home" / ".cache" / "evalkit"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_folder(tmp_path) == tmp_path / "xdg" / "evalkit"
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")  # the specification: to be ignored
    assert default_folder(tmp_path) == tmp_path / "home" / ".cache" / "evalkit"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert default_folder(tmp_path) == tmp_path / "home" / "Library" / "Caches" / "evalkit"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert default_folder(tmp_path) == tmp_path / "local" / "evalkit" / "cache"
    monkeypatch.delenv("LOCALAPPDATA")
    assert default_folder(tmp_path) == tmp_path / "home" / "AppData" / "Local" / "evalkit" / "cache"


def test_open_uses_the_default_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EVALKIT_CACHE", str(tmp_path / "named"))
    assert ReplyStore.open().folder == (tmp_path / "named").resolve()
    assert not (tmp_path / "named").exists()  # nothing is made before the first write


@pytest.fixture(params=[0o000, 0o022, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def rights(path: Path) -> int:
    return path.stat().st_mode & 0o777


def keep_one(folder: Path) -> dict[str, int]:
    """The rights of all files of a store in use, after one reply was stored and one claimed."""
    store = ReplyStore(folder, read_only=False)
    store.put(parts(1), reply("one")).result()
    assert store.claims.take([b"k" * 32])
    found = {path.name: rights(path) for path in folder.iterdir() if path.name != ".gitignore"}
    store.close()
    return found


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are POSIX's")
@pytest.mark.usefixtures("umask")
def test_a_folder_and_a_file_that_evalkit_makes_are_the_users_alone(tmp_path: Path) -> None:
    files = keep_one(tmp_path / "deep" / "cache")
    assert rights(tmp_path / "deep" / "cache") == 0o700
    assert set(files) >= {"replies.sqlite", "replies.sqlite-wal", "replies.sqlite-shm", "claims.lock"}
    assert set(files.values()) == {0o600}


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are POSIX's")
@pytest.mark.usefixtures("umask")
def test_a_folder_and_a_file_that_are_there_keep_their_rights(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o775)
    assert set(keep_one(folder).values()) == {0o600}, "a new file in an open folder"
    for path in folder.iterdir():
        path.chmod(0o660)
    files = keep_one(folder)
    assert (rights(folder), files["replies.sqlite"], files["replies.sqlite-wal"], files["claims.lock"]) == (
        0o775, 0o660, 0o660, 0o660,
    )  # fmt: skip
