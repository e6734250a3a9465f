"""The worst case over several attacks: in a repeat, and for each target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from grb_check.attacks.names import split_budget
from grb_check.cases.outcomes import Finding, Measurement
from grb_check.evaluation.diagnostics import about_model


def worst_of(members: Sequence[tuple[str, Measurement]], targets: int) -> Measurement:
    """The measurement of the strongest attack: rows "Min" of the papers.

    Each reference has a strongest attack of its own, since it is a model like any other.
    `per_target` is the fraction of targets that stay right under every attack, as if the attacker
    could choose for each target. Of equally strong attacks the first counts. Findings about the
    model are kept from all members, all others from the strongest only.

    Args:
        members: one or more attacks by name, measured in the same repeat.
        targets: number of targets.
    """
    names = [split_budget(name)[0] for name, _ in members]
    measurements = [each for _, each in members]
    place = min(range(len(members)), key=lambda each: measurements[each].victim.attacked)
    strongest = measurements[place]
    references = {
        name: min((each.references[name] for each in measurements), key=lambda each: each.attacked)
        for name in strongest.references
    }
    return replace(
        strongest,
        references=references,
        notes=(f"worst of {len(names)} ({', '.join(names)}): {names[place]}", *strongest.notes),
        diagnostics=_findings(strongest, measurements),
        member=names[place],
        per_target=_right_under_all(measurements, targets),
    )


def _findings(strongest: Measurement, measurements: Sequence[Measurement]) -> tuple[Finding, ...]:
    found = {each.name: each for each in strongest.diagnostics}
    for measurement in measurements:
        for each in about_model(measurement.diagnostics):
            found.setdefault(each.name, each)
    return tuple(found.values())


def _right_under_all(measurements: Sequence[Measurement], targets: int) -> float:
    bits = [np.frombuffer(each.victim.right_after, np.uint8) for each in measurements]
    return int(np.unpackbits(np.bitwise_and.reduce(bits)).sum()) / targets
