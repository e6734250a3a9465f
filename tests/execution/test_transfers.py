"""Which perturbations of a run are tried on which models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from outcome_factory import finding, outcome

from grb_check.cases.case import Case, node_id_of
from grb_check.cases.case_record import CaseRecord
from grb_check.cases.outcomes import CaseFacts, Method, RepeatResult
from grb_check.errors import ModelError
from grb_check.execution.transfers import Transfers, TransferTrial

FACTS = CaseFacts(targets=100, majority=0.1, dataset="f", origin="", attack="", threat="")


def row(case: Case, method: Method, repeats: int = 1) -> CaseRecord:
    """A row of a built-in case."""
    measured_outcome = outcome([(0.8, 0.5)] * repeats, [(0.8, 0.5)] * repeats, case)
    measured = tuple(replace(repeat, method=method) for repeat in measured_outcome.repeats)
    return CaseRecord(
        id=case.id,
        node_id=node_id_of(case),
        result="pass",
        outcome=replace(measured_outcome, repeats=measured),
    )


def results(of: CaseRecord, content: bytes) -> list[RepeatResult]:
    """The results of a row, each with another perturbation."""
    assert of.outcome is not None
    return [
        RepeatResult(
            facts=FACTS,
            measurement=repeat,
            warnings=(),
            attacked_by=(),
            perturbation=content and content + bytes([repeat.seed]),
        )
        for repeat in of.outcome.repeats
    ]


ADAPTIVE = row(Case("d", "easy", "injection", "pgd+white-box", "a"), "adaptive", 2)
OTHER = row(Case("d", "easy", "injection", "pgd+white-box", "b"), "transferred", 2)
BLACK_BOX = row(Case("d", "easy", "injection", "rnd", "a"), "black-box", 2)
TWIN = row(Case("d", "easy", "injection", "rnd", "b"), "black-box", 2)
ELSEWHERE = row(Case("d", "hard", "injection", "rnd", "a"), "black-box", 2)


def tried(*rows: CaseRecord, contents: Mapping[str, bytes]) -> list[tuple[str, int, list[bytes]]]:
    """What is tried: the model, the repeat, and the perturbations."""
    transfers, seen = Transfers(), []
    for record in rows:
        transfers.add(record.case, results(record, contents.get(record.case.id, b"")))

    def note(tryings: Sequence[TransferTrial]) -> list[Any]:
        for trying in tryings:
            (case,) = trying.own
            seen.append(
                (
                    case.model,
                    trying.seed,
                    [perturbation.perturbation for perturbation in trying.made],
                )
            )
        return [(trying, {}) for trying in tryings]

    transfers.findings(rows, note)
    return seen


def test_each_model_meets_the_perturbations_of_others_in_the_same_repeat() -> None:
    """Each once, though black-box attacks have the same for every model; not its own."""
    rows = (ADAPTIVE, OTHER, BLACK_BOX, TWIN, ELSEWHERE)
    contents = {
        ADAPTIVE.case.id: b"a",
        OTHER.case.id: b"b",
        BLACK_BOX.case.id: b"rnd",
        TWIN.case.id: b"rnd",
        ELSEWHERE.case.id: b"hard",
    }
    both = [
        ("a", 0, [b"rnd\0", b"b\0"]),
        ("a", 1, [b"rnd\1", b"b\1"]),
        ("b", 0, [b"rnd\0", b"a\0"]),
        ("b", 1, [b"rnd\1", b"a\1"]),
    ]
    assert tried(*rows, contents=contents) == both
    assert sorted(tried(*rows[::-1], contents=contents)) == both


def test_a_model_that_fails_is_named_and_the_others_are_tried() -> None:
    """The run has its figures; what it lacks is said."""
    transfers = Transfers()
    for record in (ADAPTIVE, OTHER):
        transfers.add(record.case, results(record, record.case.id.encode()))

    def fails(tryings: Sequence[TransferTrial]) -> Iterator[Any]:
        for trying in tryings:
            (case,) = trying.own
            error = ModelError("too many nodes")
            yield trying, error if case.model == "a" else {case: finding("transfer-stronger", 0.3)}

    findings = transfers.findings([ADAPTIVE, OTHER], fails)
    assert set(findings) == {(OTHER.case, 0), (OTHER.case, 1)}
    assert transfers.untried == ["perturbations were not tried on a: too many nodes"] * 2


def test_resumed_cases_are_counted() -> None:
    """Their perturbations are not known any more; `worst` never has one."""
    transfers = Transfers()
    worst = row(Case("d", "easy", "injection", "worst", "a"), "adaptive")
    for record in (ADAPTIVE, OTHER, worst):
        transfers.add(record.case, results(record, b""))
    assert transfers.findings([ADAPTIVE, OTHER, worst], lambda _: ()) == {}
    assert transfers.untried == [
        "perturbations of 2 cases of an interrupted run were not tried on other models"
    ]
