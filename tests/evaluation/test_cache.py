"""Measurements that are kept for `worst`."""

from __future__ import annotations

import torch
from outcome_factory import CASE, outcome

from grb_check.attacks.threat import Perturbation
from grb_check.cases.outcomes import Scores
from grb_check.evaluation.cache import KnownMeasurements
from grb_check.evaluation.trials import Measured


def none(kind: str) -> Scores:
    raise AssertionError(kind)


def measured(nodes: int) -> Measured:
    """A measurement whose perturbation takes 8 bytes for each node."""
    measurement = outcome([(0.8, 0.4)], [(0.8, 0.7)]).repeats[0]
    return Measured(measurement, Perturbation(modified_nodes=torch.arange(nodes)), (), none)


def test_the_oldest_measurements_are_dropped_when_memory_is_used_up() -> None:
    """Replacing one frees its memory first; one that is too large is not kept at all."""
    known = KnownMeasurements(most_bytes=80)
    for seed in (0, 1, 1):
        known.add(("model", CASE, seed), measured(5))
    assert known.get(("model", CASE, 0)) is not None
    known.add(("model", CASE, 2), measured(5))
    assert [known.get(("model", CASE, seed)) is not None for seed in range(3)] == [
        False,
        True,
        True,
    ]
    known.add(("model", CASE, 3), measured(11))
    assert not any(known.get(("model", CASE, seed)) for seed in range(4))
