"""Outcomes made of given accuracies, for tests of what reads outcomes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from grb_check.cases.case import Case
from grb_check.cases.findings import Finding
from grb_check.cases.outcomes import Measurement, Outcome, Scores
from grb_check.evaluation.diagnostics import DIAGNOSTICS

CASE = Case("synthetic-cora", "easy", "injection", "pgd")
TARGETS = 100
MAJORITY = 0.1  # share of the most frequent class


def finding(name: str, figure: float) -> Finding:
    """A finding of that diagnostic."""
    limit = DIAGNOSTICS[name].limit
    return Finding(name=name, figure=figure, limit=limit, text=f"{figure} beyond {limit}")


def scores(clean: float, attacked: float, targets: int = TARGETS) -> Scores:
    """Scores whose bits agree with the accuracies (multiples of 1 / targets)."""
    ranks = np.arange(targets)
    return Scores(
        clean=clean,
        attacked=attacked,
        right_before=np.packbits(ranks < round(clean * targets)).tobytes(),
        right_after=np.packbits(ranks < round(attacked * targets)).tobytes(),
    )


def outcome(
    victim: Sequence[tuple[float, float]],
    reference: Sequence[tuple[float, float]],
    case: Case = CASE,
    model: str = "mypkg:build",
    **others: Sequence[tuple[float, float]],
) -> Outcome:
    """An outcome with one repeat for each pair (clean, attacked); `others` are more references."""
    references = {"gcn": reference, **others}
    repeats = [
        Measurement(
            seed=seed,
            victim=scores(*pair),
            references={name: scores(*pairs[seed]) for name, pairs in references.items()},
            spent={"injected_nodes": 8},
            from_store=False,
            seconds=1.5,
            training_seconds=0.5,
        )
        for seed, pair in enumerate(victim)
    ]
    return Outcome(
        case=case,
        model=model,
        targets=TARGETS,
        majority=MAJORITY,
        dataset="f" * 64,
        origin="made for tests",
        repeats=tuple(repeats),
    )
