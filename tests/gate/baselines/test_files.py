"""The baseline file: what is written is read back, and damaged files are refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from baseline_factory import VERSIONS, accuracies, entries, entry, resealed, saved
from hypothesis import given
from hypothesis import strategies as st
from mutants import byte_mutants, structural_mutants

from grb_check.cases.case import Case
from grb_check.cases.target_weights import balanced_weights
from grb_check.errors import UsageError
from grb_check.gate.baselines.baseline import open_baseline
from grb_check.gate.baselines.compare import compare, compare_jointly
from grb_check.gate.baselines.files import (
    BaselineFile,
    read_baseline,
    write_baseline,
)
from grb_check.gate.baselines.pairs import Pair

CASE = Case("x", "easy", "injection", "a")
NAMES = st.text("abc/@+=.", min_size=1, max_size=12)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "baseline.json"


@st.composite
def files(draw: st.DrawFn) -> BaselineFile:
    """Any small file."""
    case_entries = draw(st.dictionaries(NAMES, entries(), max_size=4))
    return saved(case_entries)


@given(given=files())
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, given: BaselineFile
) -> None:
    """Bits, figures and texts; and it is written again byte by byte."""
    path = tmp_path_factory.mktemp("kept") / "baseline.json"
    write_baseline(path, given)
    result = read_baseline(path)
    assert replace(result, digest="") == given
    again = path.read_text()
    write_baseline(path, result)
    assert path.read_text() == again
    assert read_baseline(path).digest == result.digest


def test_figures_of_balanced_accuracy_come_back_and_compare_by_class(path: Path) -> None:
    """One lost target of a class of ten counts as much as nine of a class of ninety."""
    weights = balanced_weights([0] * 90 + [1] * 10)
    before, rare = (
        replace(accuracies([share] * 2), target_weights=weights) for share in (1.0, 0.9)
    )
    frequent = entry([[False] * 9 + [True] * 91] * 2, target_weights=weights)
    write_baseline(path, saved({"x/easy/injection/a": rare}))
    (read_again,) = read_baseline(path).entries.values()
    assert read_again == rare
    assert read_again.attacked == pytest.approx((0.5, 0.5))  # all ten of the rare class are lost
    assert frequent.attacked == pytest.approx((0.95, 0.95))
    losses = Pair(CASE, before, rare).target_losses()
    assert losses.mean() == pytest.approx(50.0)
    plain = replace(rare, target_weights=b"")
    assert compare(Pair(CASE, before, plain), 2.0, 0.05).result == "incomparable"


def test_a_change_of_one_case_changes_its_lines_and_the_digest(path: Path) -> None:
    """So that a review shows which cases changed."""
    case_entries = {f"x/easy/injection/{name}": accuracies([0.5, 0.7]) for name in "abc"}
    write_baseline(path, saved(case_entries))
    before = path.read_text().splitlines()
    write_baseline(path, saved({**case_entries, "x/easy/injection/b": accuracies([0.4, 0.7])}))
    after = path.read_text().splitlines()
    digest, *changed = [now for was, now in zip(before, after, strict=True) if was != now]
    assert digest.startswith('  "digest": ')
    assert 0 < len(changed) <= 5
    index = next(number for number, line in enumerate(after) if "injection/b" in line)
    assert all(abs(after.index(line) - index) < 14 or "injection/b" in line for line in changed)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[:-40], "is not JSON, or is cut short"),
        (lambda text: text.replace("50.00 70.00", "50.00 71.00"), "does not match its digest"),
        (lambda text: text.replace('"format": 7', '"format": 9'), "has format 9, written by"),
        (lambda text: text.replace('"format": 7', '"format": 6'), "this release reads format 7"),
        (lambda text: text.replace('"bits"', '"bit"'), "unknown field `bit`"),
        (lambda text: text.replace('"targets": 100', '"targets": "many"'), "Expected `int`"),
        (lambda text: "[]", "is not a baseline of grb_check"),
        (lambda text: f"<<<<<<< HEAD\n{text}", "is not JSON"),
    ],
    ids=[
        "cut-off",
        "edited-figure",
        "later-format",
        "earlier-format",
        "no-bits",
        "not-a-number",
        "another-file",
        "merge-marks",
    ],
)
def test_a_damaged_file_is_refused_with_the_way_out(path: Path, change, message: str) -> None:
    """A message that a person can act on, never a wrong comparison."""
    write_baseline(path, saved({"x/easy/injection/pgd": accuracies([0.5, 0.7])}))
    path.write_text(change(path.read_text()))
    with pytest.raises(UsageError, match=message) as caught:
        read_baseline(path)
    assert "--grb-update-baseline" in str(caught.value)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("clean", "61.00%", "clean of 'x/easy/injection/pgd' is '61.00%', and its bits give '100"),
        ("attacked_by_repeat", "50.00 71.00", "attacked_by_repeat of .* '50.00 70.00'"),
        ("repeats", 3, "not 3 repeats of 100 targets"),
        ("repeats", 10**8, "repeats of 100 targets would exceed 100000000 bytes"),
        ("targets", 9, "not 2 repeats of 9 targets"),
        ("weights", "w0", "weights of .* must have one digest for each repeat"),
        ("seconds", 2.5, ""),
    ],
)
def test_figures_are_those_of_the_bits_even_if_the_digest_was_formed_again(
    path: Path, field: str, value: object, message: str
) -> None:
    """The message names the field, its value and what the bits give."""
    write_baseline(path, saved({"x/easy/injection/pgd": accuracies([0.5, 0.7])}))
    file = json.loads(path.read_text())
    file["cases"]["x/easy/injection/pgd"][field] = value
    path.write_text(resealed(file))
    if not message:
        assert read_baseline(path).entries["x/easy/injection/pgd"].seconds == value
        return
    with pytest.raises(UsageError, match=message):
        read_baseline(path)


def test_bits_of_more_targets_than_there_are_are_refused(path: Path) -> None:
    """They would make an accuracy above 1."""
    write_baseline(path, saved({"x": replace(accuracies([1.0], targets=8), targets=7)}))
    with pytest.raises(UsageError, match="bits of more than 7 targets"):
        read_baseline(path)


def test_a_damaged_file_may_be_replaced_with_a_note(path: Path) -> None:
    """Entries of cases that the run does not have are lost."""
    path.write_text("<<<<<<< HEAD\n")
    result = open_baseline(path, 2.0, "", update=True)
    assert result.entries == {}
    assert "are lost: baseline " in result.notes[0]


def test_users_own_tests_do_not_set_the_default_number_of_repeats(path: Path) -> None:
    """Their marker may name another."""
    case_entries = {
        "x/easy/injection/pgd": accuracies([0.5, 0.7]),
        "t.py::test": accuracies([0.5] * 9),
    }
    write_baseline(path, saved(case_entries))
    assert open_baseline(path, 2.0, "", update=False).repeats == 2
    write_baseline(path, saved({"t.py::test": case_entries["t.py::test"]}))
    assert open_baseline(path, 2.0, "", update=False).repeats == 9


ENTRIES = {
    "x/easy/injection/pgd": accuracies([0.5, 0.7, 0.4], targets=13),
    "x/full/injection/rnd+budget=0.1": accuracies([0.9, 0.8, 1.0], targets=50),
    "tests/test_it.py::test_own[a]": accuracies([0.25], targets=4),
}
FILE = saved(ENTRIES)


@pytest.fixture
def damaged_path(tmp_path: Path) -> Path:
    file = tmp_path / "baseline.json"
    write_baseline(file, FILE)
    return file


def outcome(damaged_path: Path, raw: bytes) -> BaselineFile | None:
    """What the file holds, after every use of it; None if it is refused."""
    damaged_path.write_bytes(raw)
    try:
        result = read_baseline(damaged_path)
    except UsageError as error:
        refused(str(error), damaged_path)
        return None
    for name, known in result.entries.items():
        assert known.repeats == len(known.weights) == len(known.perturbations)
        assert all(0.0 <= accuracy <= 1.0 for accuracy in (*known.clean, *known.attacked))
        now = ENTRIES.get(name, ENTRIES["x/easy/injection/pgd"])
        case = Case("x", "easy", "injection", "pgd")
        pairs = [Pair(case, known, now), Pair(case, now, known)]
        assert all(compare(pair, 2.0, 0.01).text for pair in pairs)
        compare_jointly(pairs[:1], 2.0, 0.01)
    write_baseline(damaged_path, replace(result, versions=VERSIONS))
    again = read_baseline(damaged_path)
    assert again.entries == result.entries
    return replace(result, digest="")


def refused(message: str, damaged_path: Path) -> None:
    assert str(damaged_path) in message
    assert "--grb-update-baseline" in message
    assert len(message) < 1500 + len(str(damaged_path))


def test_a_changed_field_is_refused_or_changes_nothing(damaged_path: Path, how_many: int) -> None:
    """Such as a version of the release, which the digest does not cover."""
    file = json.loads(damaged_path.read_text())
    results = [outcome(damaged_path, raw) for raw in structural_mutants(file, how_many, seed=0)]
    assert all(result in (None, FILE) for result in results)
    assert None in results


def test_changed_bytes_are_refused_or_give_the_same_entries(
    damaged_path: Path, how_many: int
) -> None:
    """As a broken disk or an editor would leave them."""
    for raw in byte_mutants(damaged_path.read_bytes(), how_many, seed=1):
        assert outcome(damaged_path, raw) in (None, FILE)
