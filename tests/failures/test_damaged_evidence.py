"""Evidence that was damaged is refused, or is still evidence that can be written."""

from __future__ import annotations

from pathlib import Path

import torch
from mutants import byte_mutants, npz_mutants
from outcome_factory import CASE
from strategies import graph_of

from grb_check.attacks.threat import Perturbation, Threat, verify
from grb_check.errors import BudgetError, UsageError
from grb_check.failures.evidence import (
    CaseLimits,
    Evidence,
    SavedDataset,
    SavedModel,
    SavedRepeat,
    encode,
    read,
)

EDGE = Perturbation(added_edges=torch.tensor([[0], [2]]), notes=("a reason",))
EVIDENCE = Evidence(
    case=CASE,
    model=SavedModel(name="build", target="mypkg:build", args={"sizes": [1, 2]}),
    data=SavedDataset(
        spec="synthetic-cora",
        split="grb",
        training="inductive",
        features="grb",
        folders=("data",),
        base="here",
        fingerprint="f" * 64,
        sizes={"nodes": 3},
    ),
    limits=CaseLimits(drop=0.3, clean=0.1, rule="max drop"),
    message="drop 50.0% > limit 33.3%",
    device="cpu",
    repeats=tuple(
        SavedRepeat(
            seed=seed,
            clean=0.8,
            attacked=0.3,
            method="black-box",
            member="",
            weights="a1b2",
            perturbation=EDGE,
        )
        for seed in range(2)
    ),
)
RAW = encode(EVIDENCE)


def found(path: Path, raw: bytes) -> Evidence | None:
    """The evidence in a file; None if it is refused in our words."""
    path.write_bytes(raw)
    try:
        return read(path)
    except UsageError:
        return None


def test_another_head_or_array_is_refused_or_still_evidence(tmp_path: Path, how_many: int) -> None:
    """Perturbations of another form are refused when they are verified, as replay does."""
    read_back = 0
    for raw in npz_mutants(RAW, how_many, seed=0):
        evidence = found(tmp_path / "kept.npz", raw)
        if evidence is None:
            continue
        read_back += 1
        assert all(
            0.0 <= saved_repeat.drop <= 1.0 or saved_repeat.drop < 0
            for saved_repeat in evidence.repeats
        )
        for attacked_repeat in evidence.repeats:
            _verified(attacked_repeat.perturbation)
        assert found(tmp_path / "again.npz", encode(evidence)) is not None
    assert 0 < read_back < how_many


def test_changed_bytes_are_refused(tmp_path: Path, how_many: int) -> None:
    """The checksum covers all of the file."""
    for raw in byte_mutants(RAW, how_many, seed=0):
        assert raw == RAW or found(tmp_path / "kept.npz", raw) is None


def _verified(perturbation: Perturbation) -> None:
    threat = Threat(scenario="modification", targets=torch.arange(3), edge_budget=2)
    try:
        verify(perturbation, graph_of(3, [(0, 1)]), threat)
    except BudgetError:
        return
