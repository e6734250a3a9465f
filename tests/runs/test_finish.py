"""The exit status of a run, from its facts."""

from __future__ import annotations

import itertools
from dataclasses import fields

import pytest

from grb_check.runs.finish import ExitStatus, Facts, exit_status

INTERRUPTED = 2
USAGE = 4


@pytest.mark.parametrize(
    ("facts", "status"),
    [
        (Facts(), 0),
        (Facts(status=1), 1),
        (Facts(failed=True), 1),
        (Facts(inconsistent=True), 1),
        (Facts(unjudged=True), 1),
        (Facts(unwritten=True), 1),
        (Facts(hooks_failed=True), 1),
        (Facts(status=ExitStatus.NO_CASES), 5),
        (Facts(status=ExitStatus.NO_CASES, empty_shard=True), 0),
        (Facts(status=ExitStatus.NO_CASES, empty_shard=True, unwritten=True), 1),
        (Facts(status=ExitStatus.NO_CASES, unwritten=True), 5),
        (Facts(status=INTERRUPTED, failed=True), 2),
        (Facts(status=USAGE, hooks_failed=True), 4),
        (Facts(lost=True), 3),
        (Facts(status=1, lost=True, failed=True), 3),
        (Facts(status=INTERRUPTED, lost=True), 3),
    ],
)
def test_the_status_follows_from_the_facts(facts: Facts, status: int) -> None:
    assert exit_status(facts) == status


def test_no_further_fact_makes_a_status_greener() -> None:
    """Of all combinations; an empty part of a run is the one exception."""
    names = [entry.name for entry in fields(Facts) if entry.name not in ("status", "empty_shard")]
    for values in itertools.product([False, True], repeat=len(names)):
        facts = dict(zip(names, values, strict=True))
        for status in (0, 1):
            result = exit_status(Facts(status=status, **facts))
            assert result >= status
            assert (result == 0) == (status == 0 and not any(values))
