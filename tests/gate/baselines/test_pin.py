"""The pin: what an update leaves and accepts, and what later runs are compared with."""

from __future__ import annotations

import random
from dataclasses import asdict, replace

import pytest
from baseline_factory import VERSIONS, accuracies, entries, saved
from hypothesis import given
from hypothesis import strategies as st

from grb_check.cases.case import Case
from grb_check.gate.baselines.baseline import ALPHA, LOSS_MARGIN
from grb_check.gate.baselines.compare import why_incomparable
from grb_check.gate.baselines.files import BaselineCase, BaselineFile, Pin
from grb_check.gate.baselines.joint import (
    compare_groups,
    compare_with_pin,
    groups_of,
    update_losses,
    updated,
)

CASES = [
    Case("x", level, "injection", name) for level in ("easy", "hard") for name in ("pgd", "rnd")
]
NOISE = (0.004, -0.004, 0.0, 0.008, -0.008)  # of five repeats
NAMES = st.sampled_from("abcdef")


def commit(points: float, *, targets: int = 500, name: str = "w") -> dict[Case, BaselineCase]:
    """Return the entries of a model with that attacked accuracy in all cases, in five repeats."""
    values = [(points / 100) + each for each in NOISE]
    return {case: accuracies(values, targets, name) for case in CASES}


def by_id(made: dict[Case, BaselineCase]) -> dict[str, BaselineCase]:
    return {case.id: entry for case, entry in made.items()}


def update(
    before: BaselineFile, made: dict[Case, BaselineCase], label: str | None = None
) -> BaselineFile:
    """Return the file after an update with the losses that it accepts."""
    losses = update_losses(before, made, LOSS_MARGIN)
    return updated(before, by_id(made), VERSIONS, losses, label=label)[0]


def drift(commits: int, label: str | None = None) -> BaselineFile:
    """Return the file after as many commits of a point each, with an update after each of them."""
    file = update(BaselineFile(), commit(80), label)
    for number in range(1, commits):
        file = update(file, commit(80 - number, name=f"w{number}-"))
    return file


def test_the_first_file_is_its_own_pin() -> None:
    """So that nothing has to be configured, and nothing is compared twice."""
    file = update(BaselineFile(), commit(80))
    assert file.pin == Pin(label="", versions=VERSIONS, entries=file.entries)
    assert not file.repinned
    assert compare_with_pin(file, commit(50), CASES, LOSS_MARGIN) == ()


def test_a_point_a_commit_is_shown_by_the_pin_and_by_nothing_else() -> None:
    """Five commits of one point each, with an update of the baseline after each."""
    with_pin, with_baseline = [], []
    for number in range(1, 6):
        file, now = drift(number), commit(80 - number, name="n")
        with_pin += [
            each.comparison.result for each in compare_with_pin(file, now, CASES, LOSS_MARGIN)
        ]
        with_baseline += [
            each.comparison.result
            for each in compare_groups(
                file.entries, now, groups_of(CASES), margin=LOSS_MARGIN, alpha=ALPHA
            )
        ]
    assert with_baseline == ["pass"] * 5
    assert with_pin == ["inconclusive", "fail", "fail", "fail"]  # the first file is its own pin


def test_a_loss_is_told_against_its_reference() -> None:
    """And not against the baseline that is written."""
    (loss,) = update_losses(drift(3, "v1"), commit(77, name="n"), LOSS_MARGIN)
    assert loss.name == "x"
    assert loss.replaced is not None
    assert loss.since_pin is not None
    assert loss.replaced.points == pytest.approx(1.0)
    assert loss.since_pin.points == pytest.approx(3.0)
    assert loss.texts == [
        f"all 4 cases of x: {each.text}" for each in (loss.replaced, loss.since_pin)
    ]
    assert "against the replaced baseline's 78.0%: loss 1.0 points" in loss.texts[0]
    assert "against the pin v1's 80.0%: loss 3.0 points" in loss.texts[1]


def test_a_label_moves_the_pin_to_the_whole_file() -> None:
    """Then nothing is stored twice, and the losses before no longer count."""
    before = drift(4, "v1")
    assert before.repinned == set(by_id(commit(77)))
    few = {case: each for case, each in commit(76, name="n").items() if case.difficulty == "easy"}
    moved, notes = updated(before, by_id(few), VERSIONS, label="v2")
    assert moved.pin == Pin(label="v2", versions=VERSIONS, entries=moved.entries)
    assert not moved.repinned
    assert set(moved.entries) == set(before.entries)
    assert notes == ("the pin v2 is now this file",)


def test_the_order_of_cases_plays_no_part() -> None:
    """Neither in verdicts, to the last bit, nor in the file."""
    rng = random.Random(0)
    values = {case: [rng.random() for _ in range(7)] for case in CASES}
    was = {case: accuracies(each, 97) for case, each in values.items()}
    now = {
        case: accuracies([v - 0.03 * rng.random() for v in values[case]], 97, "n") for case in CASES
    }
    file = saved(by_id(now), by_id(was), "v1")
    (expected,) = compare_with_pin(file, now, CASES, LOSS_MARGIN)
    for _ in range(10):
        shuffled = dict(rng.sample(sorted(now.items(), key=lambda item: item[0]), len(now)))
        found = compare_with_pin(file, shuffled, list(shuffled), LOSS_MARGIN)
        assert [asdict(each) for each in found] == [asdict(expected)]
        assert update(file, shuffled) == update(file, now)


@pytest.mark.slow
@given(
    before=st.dictionaries(NAMES, entries(), max_size=4),
    pinned=st.dictionaries(NAMES, entries(), max_size=4),
    made=st.dictionaries(NAMES, entries(), min_size=1, max_size=4),
    label=st.none() | st.just("v2"),
)
def test_an_update_has_every_case_in_baseline_and_pin(
    before: dict[str, BaselineCase],
    pinned: dict[str, BaselineCase],
    made: dict[str, BaselineCase],
    label: str | None,
) -> None:
    """The run's entries, the others as they were, pinned ones that can be compared with; and a
    second update with the same run changes nothing."""
    file = saved(before, {key: each for key, each in pinned.items() if key in before}, "v1")
    after, _ = updated(file, made, VERSIONS, label=label)
    assert set(after.entries) == set(after.pin.entries) == {*before, *made}
    assert {key: each for key, each in after.entries.items() if key not in made} == {
        key: each for key, each in before.items() if key not in made
    }
    for key, each in made.items():
        assert replace(after.entries[key], seconds=each.seconds) == each
        assert not why_incomparable(after.pin.entries[key], after.entries[key])
    if label is not None or not before:
        assert not after.repinned
    assert updated(after, made, VERSIONS, label=label)[0] == after
