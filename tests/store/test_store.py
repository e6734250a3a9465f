"""The store of perturbations and arrays."""

from __future__ import annotations

import multiprocessing
import warnings
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutants import byte_mutants, npz_mutants
from store_workers import KEY, count_up, write_and_read
from strategies import attacked, graph_of

from grb_check.attacks.referee import verify
from grb_check.attacks.threat import Perturbation, Threat
from grb_check.errors import BudgetError, StoreWarning
from grb_check.files import outputs
from grb_check.store.store import Store

PERTURBATION = Perturbation(
    added_edges=torch.tensor([[0, 1], [3, 4]]),
    modified_nodes=torch.tensor([2]),
    modified_x=torch.tensor([[0.25, -0.0]]),
    notes=("a reason, with ünïcode",),
)
in_folder = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
arrays = st.dictionaries(
    st.text("abz_.019/", min_size=1, max_size=8),
    st.builds(
        lambda shape, dtype, seed: (
            np.random.default_rng(seed).integers(0, 100, shape).astype(dtype)
        ),
        st.lists(st.integers(0, 3), max_size=3),
        st.sampled_from(["float32", "float64", "int64", "bool"]),
        st.integers(0, 9),
    ),
    max_size=4,
)


def same(left: Perturbation, right: Perturbation) -> bool:
    for item in fields(Perturbation):
        a, b = getattr(left, item.name), getattr(right, item.name)
        if item.name == "notes":
            if a != b:
                return False
        elif a.dtype != b.dtype or a.shape != b.shape or not torch.equal(a, b):
            return False
    return True


def file_of(store: Store, key: str = KEY) -> Path:
    assert store.folder is not None
    return store.folder / key[:2] / f"{key}.npz"


@given(attacked(), st.lists(st.text()))
@in_folder
def test_perturbation_comes_back_as_it_was(tmp_path, case, notes) -> None:
    """Every tensor with dtype and shape, and the notes."""
    store, perturbation = Store(tmp_path), case[2]
    perturbation = Perturbation(**(vars(perturbation) | {"notes": tuple(notes)}))
    store.save_perturbation(KEY, perturbation)
    assert same(perturbation, store.load_perturbation(KEY))


@given(st.text())
@in_folder
def test_text_comes_back_as_it_was(tmp_path, text) -> None:
    """Any text, also an empty one."""
    store = Store(tmp_path)
    store.save_text(KEY, text)
    assert store.load_text(KEY) == text


def test_pickle_is_neither_written_nor_read(tmp_path) -> None:
    """Arrays of Python objects are refused; an npz that holds some is foreign."""
    store = Store(tmp_path)
    with pytest.raises(ValueError, match="Object arrays"):
        store.save_arrays(KEY, {"a": np.array([{}], dtype=object)})
    file_of(store).parent.mkdir()
    np.savez(file_of(store), a=np.array([{}], dtype=object))
    with pytest.warns(StoreWarning):
        assert store.load_arrays(KEY) is None


def test_file_under_another_key_is_discarded(tmp_path) -> None:
    """A copied or renamed file counts as missing."""
    store, other = Store(tmp_path), Store(None).key(case="other")
    store.save_perturbation(KEY, PERTURBATION)
    file_of(store, other).parent.mkdir(exist_ok=True)
    file_of(store).rename(file_of(store, other))
    with pytest.warns(StoreWarning, match="expected"):
        assert store.load_perturbation(other) is None


def test_a_text_is_one_text(tmp_path) -> None:
    """A file of this kind with several is discarded."""
    store = Store(tmp_path)
    store._save(KEY, "text", {}, ("a", "b"))
    with pytest.warns(StoreWarning, match="has 2 texts, expected 1; discarded"):
        assert store.load_text(KEY) is None
    assert not file_of(store).exists()


def test_a_store_that_is_only_read_changes_nothing(tmp_path) -> None:
    """It returns what is there; it adds, removes and locks nothing."""
    store, other = Store(tmp_path), Store(None).key(case="other")
    store.save_text(KEY, "kept")
    store.save_text(other, "damaged")
    file_of(store, other).write_bytes(b"damaged")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    reading = Store(tmp_path, read_only=True)
    with reading.lock(KEY):
        assert reading.load_text(KEY) == "kept"
        with pytest.warns(StoreWarning, match="ignored, it is recomputed"):
            assert reading.load_text(other) is None
        reading.save_text(KEY, "other")
        reading.save_text(Store(None).key(case="new"), "new")
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_key_depends_on_names_and_values_not_on_order() -> None:
    """Each part and its type counts; the order of arguments does not."""
    key = Store(None).key
    assert key(a=1, b="x") == key(b="x", a=1)
    different = [key(a=1), key(a="1"), key(a=1.0), key(b=1), key(a=2), key(a=1, b=1), key()]
    assert len(set(different)) == len(different)
    assert len(key(a=1)) == 64


def test_files_of_another_store_are_added_once(tmp_path) -> None:
    """Perturbations and texts, as they were written there; nothing to a store that is only read."""
    made: dict[str, bytes] = {}
    theirs = Store(tmp_path / "theirs", made=made)
    theirs.save_text("a" * 64, "first")
    theirs.save_perturbation("b" * 64, Perturbation(notes=("one",)))
    theirs.save_arrays("c" * 64, {"x": np.zeros(1)})
    assert [*made] == ["a" * 64, "b" * 64]
    ours = Store(tmp_path / "ours")
    ours.save_text("a" * 64, "ours")
    for key, content in made.items():
        ours.add(key, content)
        Store(tmp_path / "read", read_only=True).add(key, content)
        Store(None).add(key, content)
    assert ours.load_text("a" * 64) == "ours"
    found = ours.load_perturbation("b" * 64)
    assert found is not None
    assert found.notes == ("one",)
    assert not (tmp_path / "read").exists()


def test_nothing_is_kept_without_a_folder() -> None:
    """A store without a folder accepts everything and keeps nothing."""
    store = Store(None)
    with store.lock(KEY):
        store.save_perturbation(KEY, PERTURBATION)
        store.save_arrays(KEY, {"a": np.zeros(1)})
    store.save_text(KEY, "a")
    store.discard(KEY, "reason")
    assert store.load_perturbation(KEY) is None
    assert store.load_arrays(KEY) is None
    assert store.load_text(KEY) is None


def test_folder_that_cannot_be_written_warns_once(tmp_path) -> None:
    """Work continues: nothing is stored, with one warning for all attempts."""
    (tmp_path / "file").write_text("in the way")
    store = Store(tmp_path / "file" / "store")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(2):
            with store.lock(KEY):
                store.save_perturbation(KEY, PERTURBATION)
            assert store.load_perturbation(KEY) is None
    assert [warning.category for warning in seen] == [StoreWarning]
    assert "cannot be written" in str(seen[0].message)


def test_failed_write_leaves_nothing_behind(tmp_path, monkeypatch) -> None:
    """A disk that fails at the last moment causes a warning, not a broken file."""
    store = Store(tmp_path)
    store.save_arrays(KEY, {"a": np.zeros(1)})

    def fail(source, target):
        raise OSError("disk full")

    monkeypatch.setattr(outputs.os, "replace", fail)
    with pytest.warns(StoreWarning, match="disk full"):
        store.save_arrays(KEY, {"a": np.ones(1)})
    assert [path.name for path in file_of(store).parent.iterdir()] == [f"{KEY}.npz"]
    assert store.load_arrays(KEY)["a"].tolist() == [0.0]


def test_two_writers_never_mix_their_files(tmp_path) -> None:
    """Readers see one whole file or the other."""
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.starmap(write_and_read, [(tmp_path, 1), (tmp_path, 2)]) == [0, 0]


def test_lock_loses_no_update_of_two_processes(tmp_path) -> None:
    """Two processes counting to 5 each under the lock count to 10."""
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.starmap(count_up, [(tmp_path, 5), (tmp_path, 5)])
    assert int(Store(tmp_path).load_arrays(KEY)["count"]) == 10


EDGE = Perturbation(added_edges=torch.tensor([[0], [2]]), notes=("a reason",))
RIGHT = {"right": np.array([[True, False], [False, False]])}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def path_in_store(store: Store) -> Path:
    return (store.folder or Path()) / KEY[:2] / f"{KEY}.npz"


def test_a_changed_perturbation_is_discarded_or_verified(store: Store, how_many: int) -> None:
    """Notes are texts, since reports show them."""
    store.save_perturbation(KEY, EDGE)
    raw = path_in_store(store).read_bytes()
    threat = Threat(scenario="modification", targets=torch.arange(3), edge_budget=2)
    valid = 0
    for changed in npz_mutants(raw, how_many, seed=0):
        path_in_store(store).write_bytes(changed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StoreWarning)
            result = store.load_perturbation(KEY)
        if result is None:
            assert not path_in_store(store).exists()
            continue
        valid += 1
        assert all(isinstance(note, str) for note in result.notes)
        try:
            verify(result, graph_of(3, [(0, 1)]), threat)
        except BudgetError:
            continue
    assert 0 < valid < how_many


def test_changed_arrays_are_discarded_or_arrays(store: Store, how_many: int) -> None:
    """The caller checks shapes."""
    store.save_arrays(KEY, RIGHT)
    raw = path_in_store(store).read_bytes()
    for changed in npz_mutants(raw, how_many, seed=1):
        path_in_store(store).write_bytes(changed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StoreWarning)
            result = store.load_arrays(KEY)
        assert result is None or all(isinstance(array, np.ndarray) for array in result.values())


def test_changed_bytes_are_discarded(store: Store, how_many: int) -> None:
    """The checksum covers all of the file."""
    store.save_perturbation(KEY, EDGE)
    raw = path_in_store(store).read_bytes()
    for changed in byte_mutants(raw, how_many, seed=0):
        path_in_store(store).write_bytes(changed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StoreWarning)
            assert changed == raw or store.load_perturbation(KEY) is None
