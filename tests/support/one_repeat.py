"""Runs of one repeat of attacks on all test nodes, without limits and without a store."""

from __future__ import annotations

import grb_check
from grb_check.cases.outcomes import Outcome
from grb_check.errors import GrbCheckError


def outcomes_of(model: str, dataset: str, *attacks: str) -> list[Outcome]:
    """Return the outcome of each attack.

    Args:
        model: `module:factory`.
        dataset: as behind `--grb-dataset`.
        attacks: as behind `--grb-attack`.

    Raises:
        GrbCheckError: a case has no outcome; the message is that of the first one.
    """
    record = grb_check.run(
        model,
        dataset=dataset,
        difficulty="full",
        attack=attacks,
        repeats=1,
        max_drop=1.0,
        min_clean=0.0,
        store="off",
    )
    for row in record.cases:
        if row.outcome is None:
            raise GrbCheckError(row.message)
    return [row.outcome for row in record.cases if row.outcome is not None]
