"""The conclusion of a run on a model."""

from __future__ import annotations

from dataclasses import replace

import pytest
from outcome_factory import finding, outcome
from record_factory import entry, record, run_record

from grb_check.cases.case import Case
from grb_check.cases.outcomes import Outcome, Reference
from grb_check.cases.suites import SUITES
from grb_check.gate.limits import Gate
from grb_check.ranking.boards.files import shipped_board
from grb_check.reports.conclusion import conclusions
from grb_check.reports.notes import notes


def made(
    level: str,
    attack: str,
    attacked: float,
    clean: float = 0.8,
    best: str = "shield",
    scenario: str = "injection",
) -> Outcome:
    """A case of which 0.6 of a perceptron, 0.4 of a GCN and 0.7 of the best model are left."""
    case = Case("synthetic-cora", level, scenario, attack)
    case_outcome = outcome(
        [(clean, attacked)] * 2, [(0.8, 0.4)] * 2, case, "net", mlp=[(0.6, 0.6)] * 2
    )
    if "white-box" in attack:
        repeats = tuple(replace(repeat, method="adaptive") for repeat in case_outcome.repeats)
        case_outcome = replace(case_outcome, repeats=repeats)
    return replace(
        case_outcome, shipped={best: Reference(clean=(0.8,), attacked=(0.7,))} if best else {}
    )


def told(*outcomes: Outcome, gate: Gate | None = None) -> list[str]:
    entries = [
        entry(case_outcome.case, case_outcome, gate or Gate(max_drop=1.0))
        for case_outcome in outcomes
    ]
    return conclusions(run_record(record(entries)))


BLACK_BOX = (made("easy", "pgd", 0.48), made("easy", "rnd", 0.7), made("full", "pgd", 0.41))
ADAPTIVE = (made("easy", "pgd+white-box", 0.08), made("full", "pgd+white-box", 0.45))


def test_the_strongest_attack_of_each_difficulty_counts() -> None:
    """Who knows a model may also use the attacks that do not need that."""
    (text,) = told(*BLACK_BOX, *ADAPTIVE)
    assert text == (
        "net keeps on average 44 and 24 % under these attacks, by attackers who do not know it and "
        "by those who do; a model without the graph keeps 60 %, an undefended GCN 40 %, the most "
        "robust known (shield) 70 %."
    )


def test_a_reference_that_has_learned_nothing_is_no_yardstick() -> None:
    """Neither in the conclusion nor as a mark; with it goes the last, if there is no other."""
    case = Case("molecules", "full", "modification", "prbcd")
    case_outcome = replace(outcome([(0.86, 0.6)], [(0.43, 0.4)], case, "net"), majority=0.57)
    assert told(case_outcome) == [
        "net keeps 60 % under these attacks, by attackers who do not know it; neither an "
        "undefended GCN nor a model without the graph has learned the data."
    ]
    (note,) = notes(run_record(record([entry(case, case_outcome, Gate(max_drop=1.0))])).cases, 1)
    assert note.startswith("molecules/full: clean accuracy of GCN 43.0%, and of the most frequent")


@pytest.mark.parametrize(
    ("outcomes", "beginning"),
    [
        (
            BLACK_BOX,
            "net keeps on average 44 % under these attacks, by attackers who do not know",
        ),
        (ADAPTIVE[:1], "net keeps 8 % under these attacks, by attackers who know it; a model"),
        (
            (made("easy", "pgd", 0.2, clean=0.3),),
            "net classifies only 30% correctly without an attack: too few to lose any.",
        ),
    ],
)
def test_a_run_may_lack_one_kind_of_attacker(outcomes: tuple[Outcome, ...], beginning: str) -> None:
    """Or have a model that cannot lose what it never had."""
    (text,) = told(*outcomes)
    assert text.startswith(beginning)


def test_a_difficulty_where_little_is_right_is_told_apart() -> None:
    """The means are those of the others."""
    poor = made("hard", "pgd", 0.2, clean=0.3)
    (text,) = told(*BLACK_BOX, poor)
    assert text.startswith("net keeps on average 44 % under these attacks")
    assert " At hard it classifies only 30% correctly without an attack: too few" in text


def test_what_is_not_known_is_not_told() -> None:
    """No model without the graph, as for sets of graphs, and no leaderboard of the dataset."""
    bare = made("easy", "pgd", 0.48, best="")
    repeats = tuple(replace(r, references={"gcn": r.references["gcn"]}) for r in bare.repeats)
    (text,) = told(replace(bare, repeats=repeats))
    assert text.endswith("do not know it; an undefended GCN keeps 40 %.")


def test_a_model_on_the_shipped_graph_has_a_rank() -> None:
    """If all cases of the suite smoke were measured, and no diagnostic doubts an attack."""
    board = shipped_board("synthetic-cora")
    assert board is not None

    def cases(attacked: float) -> list[Outcome]:
        suite = SUITES["smoke"]
        made_cases = [
            made(level, attack, attacked, max(attacked, 0.8), scenario=scenario)
            for level in suite.difficulties
            for scenario, attack in suite.attacks
        ]
        return [replace(case_outcome, dataset=board.fingerprint) for case_outcome in made_cases]

    def rank(outcomes: list[Outcome]) -> str:
        (text,) = told(*outcomes)
        return text.partition("70 %.")[2].strip()

    last = len(board.defences) + 1
    assert rank(cases(1.0)) == f"1st of {last} on the shipped leaderboard."
    assert rank(cases(0.02)).startswith(f"{last}th of {last} on the shipped leaderboard.")
    assert rank(cases(1.0)[1:]) == "Rank: needs all 18 cases of the suite smoke."
    doubted, *others = cases(1.0)
    found = (finding("wrong-gradient", 0.9),)
    repeats = tuple(replace(repeat, diagnostics=found) for repeat in doubted.repeats)
    doubted = replace(doubted, repeats=repeats)
    assert rank([doubted, *others]) == "Rank: none, since diagnostics doubt an attack."
    assert shipped_board("../shipped/synthetic-cora") is None


def test_each_model_and_dataset_has_a_conclusion() -> None:
    """Users' own tests and `worst`, which is made of other cases, are in none."""
    other = made("easy", "pgd", 0.2)
    other = replace(other, case=replace(other.case, dataset="other"))
    worst = made("easy", "worst", 0.1)
    texts = told(*BLACK_BOX, other, worst)
    assert {text.partition(" keeps ")[0] for text in texts} == {
        "net on other",
        "net on synthetic-cora",
    }
    assert " 10 %" not in " ".join(texts)
