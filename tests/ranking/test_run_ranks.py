"""Ranks of models, from the rows of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

import pytest
from boards import board_of
from outcome_factory import outcome

from grb_check.cases.case import Case
from grb_check.cases.expected_cases import ExpectedCases
from grb_check.cases.node_ids import TEST_NAME, node_path
from grb_check.gate.limits import Gate
from grb_check.gate.rank_limits import Group
from grb_check.ranking.boards.board import NO_ATTACK, Board
from grb_check.ranking.run_ranks import GroupStandings, group_standings, standings_of

BOARD = board_of(
    {
        "strong": {"injection/rnd": (0.8,), "injection/pgd": (0.8,), NO_ATTACK: (0.8,)},
        "weak": {"injection/rnd": (0.2,), "injection/pgd": (0.2,), NO_ATTACK: (0.8,)},
    },
    difficulty="easy",
)
ZOO = {"tiny": (BOARD,)}
GATE = Gate(min_clean=0.5)


def node_id(case: Case) -> str:
    return f"{node_path(case)}::{TEST_NAME}[{case.cell}]"


def case(attack: str, model: str = "") -> Case:
    return Case("tiny", "easy", *attack.split("/"), model)


def run(
    accuracies: Mapping[str, Mapping[str, Sequence[float] | None]],
    clean: float = 0.8,
    planned: Sequence[str] = (),
    boards: Mapping[str, Sequence[Board]] = ZOO,
) -> list[GroupStandings]:
    """Standings of models: label -> attack -> accuracy in each repeat, None for an error."""
    expected_cases = ExpectedCases()
    groups: dict[Group, list[Case]] = {}
    for label, attacks in accuracies.items():
        group = Group(label or "net", "tiny", "easy", several=bool(label))
        groups[group] = [case(attack, label) for attack in (*attacks, *planned)]
        for attack, values in attacks.items():
            own = case(attack, label)
            made = None
            if values is not None:
                pairs = [(clean, value) for value in values]
                made = outcome(pairs, pairs, own, label or "net").to_dict()
            result = "error" if made is None else "pass"
            record = {"case": asdict(own), "outcome": made}
            expected_cases.expect([node_id(own)])
            expected_cases.enter(node_id(own), record, result, "")
    return group_standings(groups, expected_cases.expected, expected_cases.rows, boards, GATE)


def test_a_model_is_ranked_by_its_weighted_accuracy_in_each_repeat() -> None:
    """Formed inside the repeats, over the attacks that both sides have and no attack."""
    (group,) = run({"": {"injection/rnd": (0.4, 0.8), "modification/rnd": (0.0, 0.0)}})
    (standing,) = group.standings
    first, second = 4 / 5, 1 / 5  # 1 and 1 / 4, normalised
    assert standing.figure == pytest.approx((first * 0.4 + second * 0.8 + 0.8) / 2)
    assert (standing.rank, standing.competitors, standing.attacks) == (2, 3, 1)
    assert standing.missing == ("injection/pgd",)
    assert (group.group.id, group.name, group.unranked) == ("tiny/easy", "net", "")


def test_figures_that_do_not_belong_together_are_not_ranked() -> None:
    """Several models or tests, as when a fixture has parameters, or numbers of repeats.

    Other plugins add to the ids of tests; then the record that came with the report says which
    case it was.
    """
    (group,) = run({"": {"injection/rnd": (0.4,), "injection/pgd": (0.4, 0.4)}})
    assert group.unranked == "its cases have different numbers of repeats (1, 2)"
    own = case("injection/rnd")
    group = {Group("net", "tiny", "easy"): [own]}

    def standings(*tests: tuple[str, str, float]) -> GroupStandings:
        expected_cases = ExpectedCases()
        for name, model, attacked in tests:
            test = node_id(own).replace("easy/", f"{name}easy/") + "@group"
            made = outcome([(0.8, attacked)], [(0.8, attacked)], own, model).to_dict()
            expected_cases.expect([test])
            expected_cases.enter(test, {"case": asdict(own), "outcome": made}, "pass", "")
        (found,) = group_standings(group, expected_cases.expected, expected_cases.rows, ZOO, GATE)
        return found

    assert standings(("", "net", 0.4)).standings[0].rank == 2
    assert standings(("a-", "net", 0.4), ("b-", "net", 0.4)).standings[0].rank == 2
    found = standings(("a-", "net", 0.4), ("b-", "net", 0.3))
    assert found.unranked == "several tests of tiny/easy/injection/rnd have different figures"
    found = standings(("a-", "a", 0.4), ("b-", "b", 0.4))
    assert found.unranked == "its cases are of several models (a, b)"


def test_the_standing_under_one_attack_is_known_from_its_outcome() -> None:
    """On each leaderboard that has the attack, unless the model or the data is not comparable."""
    made = outcome([(0.8, 0.5)], [(0.8, 0.5)], case("injection/rnd"))
    (standing,) = standings_of(made, ZOO, GATE)
    assert (standing.attack, standing.rank, standing.figure) == ("injection/rnd", 2, 0.5)
    assert standing.better is not None
    assert standing.better.name == "strong"
    other = replace(BOARD, fingerprint="0" * 64)
    same = replace(BOARD.among(["weak"]), fingerprint=made.dataset)
    (standing,) = standings_of(made, {"tiny": (other, same)}, GATE)
    assert (standing.rank, standing.competitors) == (1, 2)
    assert standings_of(made, {}, GATE) == ()
    assert standings_of(made, ZOO, Gate(min_clean=0.81)) == ()
    stranger = outcome([(0.8, 0.5)], [(0.8, 0.5)], case("modification/rnd"))
    assert standings_of(stranger, ZOO, GATE) == ()
