"""The case `worst`: the strongest of several attacks in each repeat. Needs no torch."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from grb_check.attacks.names import without_budgets
from grb_check.cases.findings import Finding
from grb_check.cases.outcomes import Measurement, Reference, Scores
from grb_check.cases.repeat_results import RepeatResult
from grb_check.cases.target_weights import right_share
from grb_check.evaluation.diagnostics import about_model


def worst_of(
    members: Sequence[tuple[str, Measurement]], targets: int, weights: bytes = b""
) -> Measurement:
    """The measurement of the strongest attack: rows "Min" of the papers.

    Each reference has a strongest attack of its own, since it is a model like any other.
    `per_target` is the fraction of targets that stay right under every attack, as if the attacker
    could choose for each target. Of equally strong attacks the first counts. Findings about the
    model are kept from all members, all others from the strongest only.

    Args:
        members: one or more attacks by name, measured in the same repeat.
        targets: number of targets.
        weights: of the targets, see `right_share`.
    """
    names = [without_budgets(name) for name, _ in members]
    measurements = [measurement for _, measurement in members]
    position = min(range(len(members)), key=lambda index: measurements[index].victim.attacked)
    strongest = measurements[position]
    references: dict[str, Scores] = {}
    for measurement in measurements:
        for name, reference in measurement.references.items():
            if name not in references or reference.attacked < references[name].attacked:
                references[name] = reference
    return replace(
        strongest,
        references=references,
        notes=(f"worst of {len(names)} ({', '.join(names)}): {names[position]}", *strongest.notes),
        diagnostics=_findings(strongest, measurements),
        member=names[position],
        per_target=_right_under_all(measurements, targets, weights),
    )


def worst_result(names: Sequence[str], results: Sequence[RepeatResult]) -> RepeatResult:
    """The result of `worst` from those of its members in the same repeat.

    Args:
        names: of the members.
        results: of the members.
    """
    facts = results[0].facts
    members = [(name, result.measurement) for name, result in zip(names, results, strict=True)]
    worst = worst_of(members, facts.targets, facts.target_weights)
    strongest = next(
        result for result in results if result.measurement.perturbation == worst.perturbation
    )
    described = describe_worst(names, [result.facts.attack or None for result in results])
    return replace(
        strongest,
        facts=replace(facts, attack=described, shipped=_strongest_shipped(results)),
        measurement=worst,
        warnings=tuple(dict.fromkeys(text for result in results for text in result.warnings)),
    )


def _strongest_shipped(results: Sequence[RepeatResult]) -> dict[str, Reference]:
    """The shipped references of the members, each under the attack that leaves least of it."""
    strongest: dict[str, Reference] = {}
    for result in results:
        for name, reference in result.facts.shipped.items():
            if name not in strongest or sum(reference.attacked) < sum(strongest[name].attacked):
                strongest[name] = reference
    return strongest


def describe_worst(names: Sequence[str], attacks: Sequence[str | None]) -> str:
    """Return the description of `worst` from those of its members; empty if one has none."""
    if None in attacks:
        return ""
    digest = hashlib.sha256(repr(list(attacks)).encode()).hexdigest()[:16]
    return f"worst of {', '.join(names)}: {digest}"


def _findings(strongest: Measurement, measurements: Sequence[Measurement]) -> tuple[Finding, ...]:
    result = {finding.name: finding for finding in strongest.diagnostics}
    for measurement in measurements:
        for finding in about_model(measurement.diagnostics):
            result.setdefault(finding.name, finding)
    return tuple(result.values())


def _right_under_all(measurements: Sequence[Measurement], targets: int, weights: bytes) -> float:
    bits = [np.frombuffer(measurement.victim.right_after, np.uint8) for measurement in measurements]
    return right_share(np.bitwise_and.reduce(bits).tobytes(), targets, weights)
