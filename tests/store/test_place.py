"""Places of stores, as plain data."""

from __future__ import annotations

import pickle
from pathlib import Path

from store_workers import KEY

from grb_check.store.place import StorePlace, open_store


def test_a_place_travels_and_opens_the_same_folder(tmp_path: Path) -> None:
    """Any process can open it; None stores nothing."""
    place = StorePlace(str(tmp_path / "kept"))
    assert pickle.loads(pickle.dumps(place)) == place
    open_store(place).save_text(KEY, "a")
    open_store(None).save_text(KEY, "b")
    assert open_store(place).load_text(KEY) == "a"
    assert open_store(None).load_text(KEY) is None


def test_a_place_that_is_only_read_stays_empty(tmp_path: Path) -> None:
    """Not even the folder is made."""
    store = open_store(StorePlace(str(tmp_path / "kept"), read_only=True))
    with store.lock(KEY):
        store.save_text(KEY, "a")
    assert list(tmp_path.iterdir()) == []
