"""Functions of the processes that share a store in its tests; they import no torch."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from grb_check.store.store import Store

KEY = Store(None).key(case="test")


def write_and_read(folder: Path, number: int) -> int:
    """Return how often of 20 an array was missing or mixed from two writers."""
    store, wrong = Store(folder), 0
    for _ in range(20):
        store.save_arrays(KEY, {"a": np.full(20_000, number)})
        arrays = store.load_arrays(KEY)
        wrong += arrays is None or len(set(arrays["a"].tolist())) != 1
    return wrong


def count_up(folder: Path, times: int) -> None:
    """Read a counter, wait, and write it back one higher, under the lock."""
    store = Store(folder)
    for _ in range(times):
        with store.lock(KEY):
            arrays = store.load_arrays(KEY)
            count = 0 if arrays is None else int(arrays["count"])
            time.sleep(0.01)
            store.save_arrays(KEY, {"count": np.array(count + 1)})
