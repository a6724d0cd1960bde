"""A Dask cluster of two worker processes on this machine."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import joblib
import pytest


@contextlib.contextmanager
def dask_workers(folder: Path) -> Iterator[None]:
    """joblib's work goes to the cluster, whose files are in this folder."""
    distributed = pytest.importorskip("distributed")
    local = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "host": "127.0.0.1"}
    with (
        distributed.LocalCluster(**local, local_directory=folder / "dask") as cluster,
        distributed.Client(cluster),
        joblib.parallel_config("dask"),
    ):
        yield
