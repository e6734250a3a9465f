"""Results that are kept for `worst`."""

from __future__ import annotations

from outcome_factory import CASE, outcome

from grb_check.cases.repeat_results import CaseFacts, RepeatResult
from grb_check.evaluation.cache import KnownResults

FACTS = CaseFacts(targets=10, majority=0.5, dataset="d", origin="o", attack="a", threat="t")


def result(size: int) -> RepeatResult:
    """A result whose perturbation takes that many bytes."""
    measurement = outcome([(0.8, 0.4)], [(0.8, 0.7)]).repeats[0]
    return RepeatResult(
        facts=FACTS, measurement=measurement, warnings=(), attacked_by=(), perturbation=bytes(size)
    )


def test_the_oldest_results_are_dropped_when_memory_is_used_up() -> None:
    """Replacing one frees its memory first; one that is too large is not kept at all."""
    known = KnownResults(most_bytes=80)
    for seed in (0, 1, 1):
        known.add(("model", CASE, seed, ()), result(40))
    assert known.get(("model", CASE, 0, ())) is not None
    known.add(("model", CASE, 2, ()), result(40))
    assert [known.get(("model", CASE, seed, ())) is not None for seed in range(3)] == [
        False,
        True,
        True,
    ]
    known.add(("model", CASE, 3, ()), result(81))
    assert not any(known.get(("model", CASE, seed, ())) for seed in range(4))
