"""Levels: what a run found of a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from outcome_factory import TARGETS, finding, outcome
from record_factory import entry, record, run_record

from grb_check.cases.case import Case
from grb_check.cases.outcomes import Exact, Outcome, Reference
from grb_check.gate.limits import Gate
from grb_check.reports.digest import digest
from grb_check.reports.levels import UNLEARNED, Level, levels

NO_GRAPH, GCN, BEST = 0.6, 0.4, 0.8
TITLES = ("Falls to", "Falls to", "No more robust", "More robust", "Near the most robust known")


def made(attack: str, attacked: tuple[float, ...], *, no_graph: float = NO_GRAPH) -> Outcome:
    """A case that leaves so much in each repeat, beside a model without the graph and a GCN."""
    case = Case("cora", "easy", "injection", attack)
    count = len(attacked)
    case_outcome = outcome(
        [(0.9, value) for value in attacked],
        [(0.8, GCN)] * count,
        case,
        "net",
        mlp=[(max(no_graph, 0.3), no_graph)] * count,
    )
    if "white-box" in attack:
        repeats = tuple(replace(repeat, method="adaptive") for repeat in case_outcome.repeats)
        case_outcome = replace(case_outcome, repeats=repeats)
    best = {"shield": Reference(clean=(0.9,), attacked=(BEST,))}
    return replace(case_outcome, shipped=best)


NO_FLOOR = Gate(max_drop=1.0, min_clean=0.0)


def level_of(*outcomes: Outcome, missing: tuple[str, ...] = (), gate: Gate = NO_FLOOR) -> Level:
    cases = [entry(o.case, o, gate) for o in outcomes]
    (level,) = levels(run_record(record(cases, missing=missing)))
    return level


def at(difficulty: str, attack: str, attacked: tuple[float, ...], clean: float) -> Outcome:
    """The same at another difficulty, where a share of `clean` is right without an attack."""
    case_outcome = made(attack, attacked)
    case = replace(case_outcome.case, difficulty=difficulty)
    repeats = tuple(
        replace(repeat, victim=replace(repeat.victim, clean=clean))
        for repeat in case_outcome.repeats
    )
    return replace(case_outcome, case=case, repeats=repeats)


def both(attacked: tuple[float, ...], **marks: float) -> tuple[Outcome, Outcome]:
    return made("pgd", (0.85,) * 3, **marks), made("pgd+white-box", attacked, **marks)


@pytest.mark.parametrize(
    ("outcomes", "rank", "text"),
    [
        (
            (made("pgd", (0.5,) * 3), made("pgd+white-box", (0.1,) * 3)),
            1,
            "Falls to attackers who do not know it: 1 attack leaves 50 %; a model without the "
            "graph keeps 60 %",
        ),
        (
            both((0.1,) * 3),
            2,
            "Falls to attackers who know it: the strongest of 2 attacks leaves 10 %; "
            "a model without the graph keeps 60 %",
        ),
        (
            both((0.38,) * 3, no_graph=0.3),
            3,
            "No more robust than an undefended model: the strongest of 2 attacks leaves "
            "38 %; an undefended GCN keeps 40 %",
        ),
        (
            both((0.7, 0.69, 0.71)),
            4,
            "More robust than an undefended model: the strongest of 2 attacks leaves "
            "70 %; an undefended GCN keeps 40 %",
        ),
        (
            both((0.78, 0.79, 0.78)),
            5,
            "Near the most robust known model: the strongest of 2 attacks leaves 78 %; "
            "that keeps 80 %",
        ),
        (
            (made("pgd", (0.7,) * 3),),
            4,
            "More robust than an undefended model against attackers who do not know it: 1 attack "
            "leaves 70 %; an undefended GCN keeps 40 %; nobody who knows it attacked",
        ),
    ],
)
def test_levels_and_the_figures_that_make_them(
    outcomes: tuple[Outcome, ...], rank: int, text: str
) -> None:
    """The worst kind of attackers counts."""
    level = level_of(*outcomes)
    assert (level.rank, level.text) == (rank, text)
    assert level.good == (rank >= 4 and len(outcomes) == 2)


def test_what_the_repeats_do_not_show_counts_as_the_lower_level() -> None:
    """A mean above the model without the graph is not enough."""
    level = level_of(*both((0.75, 0.45, 0.65)))
    assert (level.rank, level.text.partition(":")[0]) == (
        2,
        "Not shown to withstand attackers who know it",
    )
    level = level_of(*both((0.55, 0.35, 0.45), no_graph=0.2))
    assert level.text.startswith("Not shown to be more robust than an undefended model: the ")
    assert level_of(*both((0.62, 0.615, 0.62))).rank == 4


def test_a_model_is_judged_at_the_difficulties_where_it_has_something_to_lose() -> None:
    """Below its clean floor at one of them, it falls at the other; nothing is green over that."""
    fallen = both((0.1,) * 3)
    hard = [at("hard", attack, (0.2,) * 3, clean=0.3) for attack in ("pgd", "pgd+white-box")]
    level = level_of(*fallen, *hard, gate=Gate(max_drop=1.0))
    assert (level.rank, level.good) == (2, False)
    assert "the strongest of 2 attacks leaves 10 %; " in level.text
    assert "; not judged at hard, where it classifies only 30% correctly without" in level.text
    kept = [at("hard", o.case.attack, (0.2,) * 3, clean=0.3) for o in both((0.79,) * 3)]
    level = level_of(*both((0.79,) * 3), *kept, gate=Gate(max_drop=1.0))
    assert (level.rank, level.good) == (5, False)
    assert level_of(*hard, gate=Gate(max_drop=1.0)).rank == 0


def test_the_strongest_attack_is_that_of_each_difficulty() -> None:
    """The line says so where there are several."""
    other = [
        at("hard", attack, (left,) * 3, clean=0.9)
        for attack, left in (("pgd", 0.85), ("pgd+white-box", 0.2))
    ]
    assert ": at each difficulty the strongest of 2 attacks leaves 10 to 20 %; " in (
        level_of(*both((0.1,) * 3), *other).text
    )


def test_the_strongest_attack_is_that_of_each_gang() -> None:
    """At one difficulty."""
    text = level_of(*both((0.1,) * 3), made("pgd+white-box+gang=10x3", (0.2,) * 3)).text
    assert ": by each gang the strongest of 3 attacks leaves 10 to 20 %" in text


@given(values=st.lists(st.integers(0, 100), min_size=3, max_size=3), worse=st.integers(0, 100))
def test_a_stronger_attack_raises_no_level(values: list[int], worse: int) -> None:
    """Nor does an attack that leaves more lower it."""
    shares = tuple(value / 100 for value in values)
    alone = level_of(*both(shares)).rank
    other = made("tdgia+white-box", tuple(max(0.0, share - worse / 100) for share in shares))
    assert level_of(*both(shares), other).rank <= alone or worse == 0


def test_what_weakens_a_level_is_part_of_it() -> None:
    """Findings, and cases without figures; no green sign stands beside such a level."""
    black_box, known = both((0.79,) * 3)
    found = tuple(
        replace(repeat, diagnostics=(finding("no-gradient", 0.9),)) for repeat in known.repeats
    )
    level = level_of(black_box, replace(known, repeats=found))
    assert level.text.endswith("; diagnostics doubt the attacks: no-gradient")
    assert (level.rank, level.good) == (5, False)
    level = level_of(black_box, known, missing=("grb::cora::test_attack[easy/injection/agia]",))
    assert level.text.endswith("; 1 case without figures may hold stronger attacks")
    assert not level.good


@pytest.mark.parametrize(("attacked", "sign"), [((0.1,) * 3, "plain"), ((0.79,) * 3, "pass")])
def test_the_sign_of_a_run_is_never_greener_than_its_level(
    attacked: tuple[float, ...], sign: str
) -> None:
    """Though the gate let both pass."""
    cases = [entry(o.case, o, Gate(max_drop=1.0, min_clean=0.0)) for o in both(attacked)]
    result = digest(run_record(record(cases)))
    assert (result.green, result.sign) == (True, sign)


def test_a_model_that_learned_nothing_is_not_judged() -> None:
    """Nor one on data that none of the models that levels compare with has learned."""
    poor = outcome([(0.2, 0.2)] * 2, [(0.8, 0.4)] * 2, Case("cora", "easy", "injection", "pgd"))
    (level,) = levels(run_record(record([entry(poor.case, poor, Gate())])))
    assert (level.rank, level.text) == (
        0,
        "Not judged: it classifies only 20% correctly without an attack",
    )
    unlearned: Mapping[str, float] = {"majority": 0.95}
    blind = replace(made("pgd", (0.89,) * 2), **unlearned)  # type: ignore[arg-type]
    (level,) = levels(run_record(record([entry(blind.case, blind, Gate(min_clean=0.0))])))
    assert level.text == f"Not judged: {UNLEARNED}"


def test_undecided_targets_are_named_and_leave_the_level_open() -> None:
    """They count as lost, though nobody found a way to them."""
    proven = made("any-flip+white-box", (0.5,))
    found = [Exact(tried=9, right=8, proven=5, undecided=n, basis="proven") for n in (0, 2)]
    whole, cut = (
        replace(proven, repeats=tuple(replace(repeat, exact=one) for repeat in proven.repeats))
        for one in found
    )
    assert "undecided" not in level_of(whole).text
    assert level_of(whole).certain
    assert "2 undecided targets count as lost" in level_of(cut).text
    assert not level_of(cut).certain


def test_a_model_does_not_fall_by_targets_that_nobody_decided() -> None:
    """Whether it keeps less than a model without the graph is not known then."""
    case_outcome = made("any-flip+white-box", (0.5,))
    texts = []
    for undecided in (TARGETS // 20, TARGETS // 5):  # with them 55 and 70 % may be left, of 60
        found = Exact(tried=9, right=90, proven=50, undecided=undecided, basis="proven")
        repeats = tuple(replace(repeat, exact=found) for repeat in case_outcome.repeats)
        cut = replace(case_outcome, repeats=repeats)
        assert cut.attacked_at_most == pytest.approx(0.5 + undecided / TARGETS)
        texts.append(level_of(cut).text)
    assert texts[0].startswith("Falls to")
    assert "with them 55 % may be left" in texts[0]
    assert texts[1].startswith("Not shown to withstand")
    assert "with them 70 % may be left" in texts[1]
