"""Entries of the store that were damaged are discarded, or hold what can be verified."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from mutants import byte_mutants, npz_mutants
from store_workers import KEY
from strategies import graph_of

from grb_check.attacks.threat import Perturbation, Threat, verify
from grb_check.errors import BudgetError, StoreWarning
from grb_check.store.store import Store

EDGE = Perturbation(added_edges=torch.tensor([[0], [2]]), notes=("a reason",))
RIGHT = {"right": np.array([[True, False], [False, False]])}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def file_of(store: Store) -> Path:
    return (store.folder or Path()) / KEY[:2] / f"{KEY}.npz"


def test_a_changed_perturbation_is_discarded_or_verified(store: Store, how_many: int) -> None:
    """Notes are texts, since reports show them."""
    store.save_perturbation(KEY, EDGE)
    raw = file_of(store).read_bytes()
    threat = Threat(scenario="modification", targets=torch.arange(3), edge_budget=2)
    valid = 0
    for changed in npz_mutants(raw, how_many, seed=0):
        file_of(store).write_bytes(changed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StoreWarning)
            result = store.load_perturbation(KEY)
        if result is None:
            assert not file_of(store).exists()
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
    raw = file_of(store).read_bytes()
    for changed in npz_mutants(raw, how_many, seed=1):
        file_of(store).write_bytes(changed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StoreWarning)
            result = store.load_arrays(KEY)
        assert result is None or all(isinstance(array, np.ndarray) for array in result.values())


def test_changed_bytes_are_discarded(store: Store, how_many: int) -> None:
    """The checksum covers all of the file."""
    store.save_perturbation(KEY, EDGE)
    raw = file_of(store).read_bytes()
    for changed in byte_mutants(raw, how_many, seed=0):
        file_of(store).write_bytes(changed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StoreWarning)
            assert changed == raw or store.load_perturbation(KEY) is None
