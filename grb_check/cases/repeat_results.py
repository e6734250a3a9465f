"""Results of single repeats, which cross processes, and the outcome that they make."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from grb_check.cases.case import Case
from grb_check.cases.outcomes import Measurement, Method, Outcome, Reference
from grb_check.errors import DataError

ENOUGH: Final = 6  # repeats, without which a default limit fails no case


@dataclass(frozen=True, kw_only=True)
class CaseFacts:
    """Facts that all repeats of a case have in common; see `Outcome` for the fields."""

    targets: int
    majority: float
    dataset: str
    origin: str
    attack: str
    threat: str
    target_weights: bytes = b""
    recall: str = ""
    shipped: Mapping[str, Reference] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RepeatResult:
    """One case in one repeat.

    Attributes:
        facts: of the case.
        measurement: of this repeat.
        warnings: given while the dataset was loaded and the victim was built and trained.
        changes: made between what the user gave and what the model gets, see `changes_of`.
        attack: canonical name of the attack; of `worst`, that of its strongest member.
        methods: tried on the victim itself besides the transferred perturbation, so that a
            reference can be attacked in the same ways; none for a black-box attack.
        perturbation: that was applied to the victim, see `perturbation_bytes`; empty if it was not
            kept.
    """

    facts: CaseFacts
    measurement: Measurement
    warnings: tuple[str, ...]
    attack: str
    methods: tuple[Method, ...]
    perturbation: bytes
    changes: tuple[str, ...] = ()


def outcome_of(case: Case, model: str, results: Sequence[RepeatResult]) -> Outcome:
    """Put the outcome of a case together.

    Args:
        case: that was run.
        model: its name in reports.
        results: of its repeats, in order.

    Raises:
        DataError: they are not of the same case, as when a file has changed in between.
    """
    facts = results[0].facts
    for result in results:
        if result.facts != facts:
            raise DataError(
                f"{case.id}: repeats were measured on different data or by different attacks: "
                f"{_described(facts)} and {_described(result.facts)}; give all workers the same "
                f"files, and run again"
            )
    return Outcome(
        case=case,
        model=model,
        targets=facts.targets,
        majority=facts.majority,
        dataset=facts.dataset,
        origin=facts.origin,
        repeats=tuple(result.measurement for result in results),
        warnings=tuple(dict.fromkeys(text for result in results for text in result.warnings)),
        changes=tuple(dict.fromkeys(text for result in results for text in result.changes)),
        attack=facts.attack,
        threat=facts.threat,
        target_weights=facts.target_weights,
        recall=facts.recall,
        shipped=facts.shipped,
    )


def _described(facts: CaseFacts) -> str:
    return f"{facts.targets} targets of {facts.dataset}, {facts.attack}, {facts.threat}"


@dataclass(frozen=True, kw_only=True)
class CaseResult:
    """A case with the results of its repeats.

    Attributes:
        outcome: put together from the results.
        results: of the repeats, in order.
        further: measures what the default limit needs before it fails the case: first its other
            references, then repeats up to `ENOUGH`; None if nothing is left.
        beside_all: whether all references that the dataset can have were asked.
    """

    outcome: Outcome
    results: tuple[RepeatResult, ...]
    further: Callable[[], CaseResult] | None
    beside_all: bool = False
