"""The conclusion of an audit: what stands, what only looks robust, and why that may be wrong."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from outcome_factory import finding, outcome
from record_factory import entry, record, run_record

from grb_check.attacks.names import NOT_EXCHANGED
from grb_check.cases.case import Case
from grb_check.cases.outcomes import Method, Outcome
from grb_check.gate.limits import Gate
from grb_check.reports.audit import audit_conclusions
from grb_check.reports.digest import digest
from grb_check.reports.html.page import page_text
from grb_check.reports.markdown import markdown_text
from grb_check.reports.record import RunRecord

KNOWN: dict[str, Method] = {
    "agia+white-box": "adaptive",
    "pgd+white-box": "adaptive",
    "prbcd": "transferred",
    "eva": "score-based",
}


def attacked(scenario: str, name: str, left: float, reference: float) -> Outcome:
    """An outcome of one repeat; attacks in `KNOWN` know the model."""
    case = Case("d", "full", scenario, name)
    case_outcome = outcome([(0.8, left)], [(0.8, reference)], case, "build")
    method = KNOWN.get(name, "black-box")
    return searched(case_outcome, method, {"adaptive": left, "score-based": left})


def searched(case_outcome: Outcome, method: Method, left_by: dict[Method, float]) -> Outcome:
    """The outcome of an attack, with what each search leaves."""
    known = {} if method == "black-box" else left_by
    return replace(
        case_outcome,
        repeats=tuple(
            replace(repeat, method=method, left_by=known) for repeat in case_outcome.repeats
        ),
    )


def audit(*outcomes: Outcome, suite: str = "audit") -> RunRecord:
    """The record of an audit with these outcomes."""
    fields = record([entry(case_outcome.case, case_outcome) for case_outcome in outcomes])
    fields["settings"]["suite"] = suite
    return run_record(fields)


def injection(black_box: float, adaptive: float) -> list[Outcome]:
    """Injection attacks that leave this much of the model; of the GCN 50 % and 10 %."""
    return [
        attacked("injection", "pgd", black_box, 0.5),
        attacked("injection", "pgd+white-box", adaptive, 0.1),
    ]


def modification(black_box: float, adaptive: float) -> list[Outcome]:
    """Modification attacks that leave this much of the model; of the GCN 70 % and 40 %."""
    return [
        attacked("modification", "dice", black_box, 0.7),
        attacked("modification", "prbcd", adaptive, 0.4),
    ]


@pytest.mark.parametrize(
    ("outcomes", "verdict", "figures"),
    [
        (
            [*injection(0.6, 0.12), *modification(0.7, 0.41)],
            "only looks robust",
            "12 10 60 41 40 70",
        ),
        (injection(0.5, 0.15), "no more robust than", "15 10 50"),
        (injection(0.6, 0.16), "stands against", "16 10 60"),
        ([*injection(0.6, 0.3), *modification(0.7, 0.2)], "only under", "30 10 60 20 40 70"),
        (
            [*injection(0.6, 0.3)[:1], attacked("injection", "rnd", 0.7, 0.7)],
            "was not attacked",
            "",
        ),
        (injection(0.12, 0.6), "no more robust than", "12 10 12"),
        ([*injection(0.6, 0.3), modification(0.7, 0.0)[1]], "only under", "30 10 60 0 40"),
        ([*injection(0.6, 0.3), modification(0.7, 0.0)[0]], "nobody who knows it", "30 10 60"),
    ],
)
def test_a_model_stands_if_it_keeps_more_than_an_undefended_one(
    outcomes: list[Outcome], verdict: str, figures: str
) -> None:
    """By more than five points, under the strongest attack that knows it, for each threat.

    Figures are what is left of it, of the GCN, and what black-box attacks leave.
    """
    run = audit(*outcomes)
    (conclusion,) = audit_conclusions(run)
    words = conclusion.text
    assert verdict in words
    assert conclusion.falls == (
        verdict in ("only looks robust", "no more robust than", "only under")
    )
    assert [line.name for line in digest(run).further] == ["audit on d"] * conclusion.falls
    ((lead, _),) = digest(run).leads
    assert (f"the audit: it {conclusion.alarm}" in lead) == conclusion.falls == ("audit" in lead)
    assert re.findall(r"([\d.]+)\.0%", words) == figures.split()
    page = page_text([digest(run)])
    assert words in page
    assert page.index('id="picture"') < page.index('id="threats"') < page.index('id="cases"')
    assert words in markdown_text([digest(run)])
    assert audit_conclusions(audit(*outcomes, suite="smoke")) == []


def test_what_weakens_the_conclusion_is_said() -> None:
    """Attacks that ended in an error may have been the strongest; so may doubted ones."""
    first, second = injection(0.6, 0.16)
    repeat = replace(second.repeats[0], diagnostics=(finding("no-effect", 0.0),))
    doubted = replace(second, repeats=(repeat,))
    lost = Case("d", "full", "injection", "tdgia+white-box")
    fields = record([entry(first.case, first), entry(doubted.case, doubted), entry(lost, None)])
    fields["settings"]["suite"] = "audit"
    (line,) = (conclusion.text for conclusion in audit_conclusions(run_record(fields)))
    assert line.startswith("build may stand against attackers who know it: injection 16.0%")
    assert line.endswith(
        "; 1 case without figures may hold stronger attacks; diagnostics doubt 1 case"
    )


@pytest.mark.parametrize(("note", "verdict"), [(NOT_EXCHANGED, "may stand"), ("", "stands")])
def test_it_does_not_stand_if_an_attack_had_to_leave_its_links(note: str, verdict: str) -> None:
    first, second = injection(0.6, 0.16)
    noted = replace(second, repeats=(replace(second.repeats[0], notes=(f"{note}: why",)),))
    (conclusion,) = audit_conclusions(audit(first, noted))
    assert conclusion.text.startswith(f"build {verdict} against attackers who know it")


@pytest.mark.parametrize(
    ("left_by", "words"),
    [
        ({"adaptive": 0.3}, "injection was not searched by answers"),
        (
            {"adaptive": 0.3, "score-based": 0.16},
            "searches do not agree on injection: 30.0% by gradients and 16.0% by answers",
        ),
        ({"adaptive": 0.17, "score-based": 0.16}, ""),
    ],
)
def test_it_stands_only_if_searches_agree(left_by: dict[Method, float], words: str) -> None:
    """Of several attacks the strongest of each search counts."""
    first, second = injection(0.6, 0.16)
    weak = attacked("injection", "agia+white-box", 0.5, 0.1)
    run = audit(first, searched(second, "adaptive", left_by), weak)
    if "score-based" not in left_by:
        run = audit(first, searched(second, "adaptive", left_by))
    (conclusion,) = audit_conclusions(run)
    stands = "may stand" if words else "stands"
    assert conclusion.text.startswith(f"build {stands} against attackers who know it")
    assert words in conclusion.text
    assert ("search" in conclusion.text) == bool(words)


def test_searches_are_compared_in_the_same_repeat() -> None:
    """Each is the stronger in one repeat: the least of all repeats would be the same."""
    first, second = injection(0.6, 0.3)
    (repeat,) = second.repeats
    one = replace(repeat, left_by={"adaptive": 0.4, "score-based": 0.3})
    other = replace(repeat, seed=1, left_by={"adaptive": 0.3, "score-based": 0.3})
    fallen = replace(repeat, seed=2, left_by={"adaptive": 0.0})
    run = audit(first, replace(second, repeats=(one, other, fallen)))
    (conclusion,) = audit_conclusions(run)
    assert "injection: 35.0% by gradients and 30.0% by answers" in conclusion.text


def test_a_model_below_the_floor_is_not_judged() -> None:
    """It cannot lose what it never had."""
    gate = Gate(max_drop=1.0, min_clean=0.9)
    fields = record(
        [entry(case_outcome.case, case_outcome, gate) for case_outcome in injection(0.6, 0.3)]
    )
    fields["settings"]["suite"] = "audit"
    (line,) = (conclusion.text for conclusion in audit_conclusions(run_record(fields)))
    assert line == "build is not judged: its figure without an attack is below the floor"
