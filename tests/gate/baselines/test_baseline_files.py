"""The baseline file: what is written is read, what is damaged is refused, changes stay local."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from baseline_factory import accuracies, entries, entry
from hypothesis import given
from hypothesis import strategies as st

from grb_check.errors import UsageError
from grb_check.gate.baselines.baseline import open_baseline
from grb_check.gate.baselines.files import Entry, read_baseline, versions_of, write_baseline

VERSIONS = {"grb_check": "0.1.0", "torch": "2.13.0"}
NAMES = st.text("abc/@+=.", min_size=1, max_size=12)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "baseline.json"


@given(kept=st.dictionaries(NAMES, entries(), max_size=4))
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, kept: dict[str, Entry]
) -> None:
    """Bits, figures, texts, all of it."""
    path = tmp_path_factory.mktemp("kept") / "baseline.json"
    write_baseline(path, kept, VERSIONS)
    assert read_baseline(path) == kept
    assert versions_of(path) == VERSIONS
    again = path.read_text()
    write_baseline(path, read_baseline(path), VERSIONS)
    assert path.read_text() == again


def test_the_figures_stand_at_the_head_for_people(path: Path) -> None:
    """Before all bits, and in the words of the reports."""
    write_baseline(path, {"x/easy/injection/pgd": accuracies([0.5, 0.7])}, VERSIONS)
    text = path.read_text()
    assert text.index('"attacked": "60.00%"') < text.index('"bits"')
    assert '"attacked_by_repeat": [50.0, 70.0]' in text


def test_a_change_of_one_case_touches_its_lines_alone(path: Path) -> None:
    """So that branches which change different cases merge."""
    kept = {f"x/easy/injection/{name}": accuracies([0.5, 0.7]) for name in "abc"}
    write_baseline(path, kept, VERSIONS)
    before = path.read_text().splitlines()
    write_baseline(path, {**kept, "x/easy/injection/b": accuracies([0.4, 0.7])}, VERSIONS)
    after = path.read_text().splitlines()
    changed = [now for was, now in zip(before, after, strict=True) if was != now]
    place = next(number for number, line in enumerate(after) if "injection/b" in line)
    assert 0 < len(changed) <= 5
    assert all(abs(after.index(line) - place) < 14 or "injection/b" in line for line in changed)


def test_the_smoke_suite_is_small(path: Path) -> None:
    """Its 15 cases with random bits, which do not compress, under the default repeats: < 200 KB."""
    rng = np.random.default_rng(0)
    made = {
        f"synthetic-cora/easy/injection/case-{number}": entry(
            rng.random((20, 268)) < 0.5,
            weights=[f"{number:016x}" for number in range(20)],
            perturbations=[f"{number:016x}" for number in range(20)],
            attack="a" * 150,
            threat="t" * 80,
        )
        for number in range(15)
    }
    write_baseline(path, made, VERSIONS)
    assert path.stat().st_size < 200_000


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda text: text[:-40], "no JSON"),
        (lambda text: text.replace("50.0, 70.0", "50.0, 71.0"), "figures and bits"),
        (lambda text: text.replace('"format": 2', '"format": 9'), "format 9"),
        (lambda text: text.replace('"format": 2', '"format": 1'), "format 1, this version"),
        (lambda text: text.replace('"bits"', '"bit"'), "cases or bits"),
        (lambda text: text.replace('"repeats": 2', '"repeats": 3'), "another size"),
        (lambda text: text.replace('"repeats": 2', '"repeats": 1000000000'), "repeats of"),
        (lambda text: text.replace('"targets": 100', '"targets": "many"'), "ValueError"),
        (lambda text: "[]", "no baseline"),
        (lambda text: f"<<<<<<< HEAD\n{text}", "merge"),
    ],
    ids=[
        "cut-off",
        "edited-figure",
        "later-format",
        "earlier-format",
        "no-bits",
        "other-repeats",
        "huge",
        "no-number",
        "another-file",
        "merge-marks",
    ],
)
def test_what_is_damaged_is_refused_with_the_way_out(path: Path, change, told: str) -> None:
    """A line that a person can act on, never a wrong comparison."""
    write_baseline(path, {"x/easy/injection/pgd": accuracies([0.5, 0.7])}, VERSIONS)
    path.write_text(change(path.read_text()))
    with pytest.raises(UsageError, match=told) as caught:
        read_baseline(path)
    assert "--grb-update-baseline" in str(caught.value)


def test_bits_of_a_case_without_figures_are_refused(path: Path) -> None:
    """As a merge by hand may leave them."""
    write_baseline(path, {"x/easy/injection/pgd": accuracies([0.5, 0.7])}, VERSIONS)
    record = json.loads(path.read_text())
    record["bits"]["y/easy/injection/pgd"] = ""
    path.write_text(json.dumps(record))
    with pytest.raises(UsageError, match="'y/easy/injection/pgd' has no figures"):
        read_baseline(path)


def test_what_is_damaged_may_be_written_anew_and_that_is_said(path: Path) -> None:
    """Entries that the run does not make are gone then, for once."""
    path.write_text("<<<<<<< HEAD\n")
    found = open_baseline(path, 2.0, update=True)
    assert found.entries == {}
    assert "is lost" in found.notes[0]


def test_tests_of_the_users_own_do_not_set_the_repeats_of_the_cases(path: Path) -> None:
    """A marker may ask for many."""
    kept = {"x/easy/injection/pgd": accuracies([0.5, 0.7]), "t.py::test": accuracies([0.5] * 9)}
    write_baseline(path, kept, VERSIONS)
    assert open_baseline(path, 2.0, update=False).repeats == 2
    write_baseline(path, {"t.py::test": kept["t.py::test"]}, VERSIONS)
    assert open_baseline(path, 2.0, update=False).repeats == 9
