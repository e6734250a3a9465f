"""Damaged baseline files: refused with the reason, or read as what they were."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from baseline_factory import VERSIONS, accuracies, saved
from mutants import byte_mutants, structural_mutants

from grb_check.cases.case import Case
from grb_check.errors import UsageError
from grb_check.gate.baselines.compare import compare, compare_jointly
from grb_check.gate.baselines.files import BaselineFile, read_baseline, write_baseline
from grb_check.gate.baselines.pairs import Pair

ENTRIES = {
    "x/easy/injection/pgd": accuracies([0.5, 0.7, 0.4], targets=13),
    "x/full/injection/rnd+budget=0.1": accuracies([0.9, 0.8, 1.0], targets=50),
    "tests/test_it.py::test_own[a]": accuracies([0.25], targets=4),
}
FILE = saved(ENTRIES)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "baseline.json"
    write_baseline(file, FILE)
    return file


def outcome(path: Path, raw: bytes) -> BaselineFile | None:
    """What the file holds, after every use of it; None if it is refused."""
    path.write_bytes(raw)
    try:
        result = read_baseline(path)
    except UsageError as error:
        refused(str(error), path)
        return None
    for name, entry in result.entries.items():
        assert entry.repeats == len(entry.weights) == len(entry.perturbations)
        assert all(0.0 <= accuracy <= 1.0 for accuracy in (*entry.clean, *entry.attacked))
        now = ENTRIES.get(name, ENTRIES["x/easy/injection/pgd"])
        case = Case("x", "easy", "injection", "pgd")
        pairs = [Pair(case, entry, now), Pair(case, now, entry)]
        assert all(compare(pair, 2.0, 0.01).text for pair in pairs)
        compare_jointly(pairs[:1], 2.0, 0.01)
    write_baseline(path, replace(result, versions=VERSIONS))
    again = read_baseline(path)
    assert again.entries == result.entries
    return replace(result, digest="")


def refused(message: str, path: Path) -> None:
    assert str(path) in message
    assert "--grb-update-baseline" in message
    assert len(message) < 1500 + len(str(path))


def test_a_changed_field_is_refused_or_changes_nothing(path: Path, how_many: int) -> None:
    """Such as a version of the release, which the digest does not cover."""
    file = json.loads(path.read_text())
    results = [outcome(path, raw) for raw in structural_mutants(file, how_many, seed=0)]
    assert all(result in (None, FILE) for result in results)
    assert None in results


def test_changed_bytes_are_refused_or_give_the_same_entries(path: Path, how_many: int) -> None:
    """As a broken disk or an editor would leave them."""
    for raw in byte_mutants(path.read_bytes(), how_many, seed=1):
        assert outcome(path, raw) in (None, FILE)
