"""Ranks of models, from the cases of a run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence

import pytest
from boards import board_of
from msgspec.structs import replace
from outcome_factory import outcome

from grb_check.cases.case import Case
from grb_check.cases.case_record import CaseRecord
from grb_check.cases.node_ids import node_id_of
from grb_check.cases.outcomes import Outcome
from grb_check.gate.limits import Gate
from grb_check.ranking.boards.board import NO_ATTACK
from grb_check.ranking.boards.published_board import published_board
from grb_check.ranking.comparison_models import Boards
from grb_check.ranking.orders import RankedEntry
from grb_check.ranking.ranks import Ranks, comparisons, ranks_of, standings_of

BOARD = board_of(
    {
        "strong": {"injection/rnd": (0.8,), "injection/pgd": (0.8,), NO_ATTACK: (0.8,)},
        "weak": {"injection/rnd": (0.2,), "injection/pgd": (0.2,), NO_ATTACK: (0.8,)},
    },
    difficulty="easy",
)
ZOO = Boards(of={"tiny": (BOARD,)})
GATE = Gate(min_clean=0.5)
Figures = Mapping[str, Sequence[float] | None]  # attack -> in each repeat; None for an error


def case(attack: str, model: str = "") -> Case:
    return Case("tiny", "easy", *attack.split("/"), model)


def back(run_case: Case, case_outcome: Outcome | None, node_id: str = "") -> CaseRecord:
    result = "error" if case_outcome is None else "pass"
    return CaseRecord(
        id=run_case.id, node_id=node_id or node_id_of(run_case), result=result, outcome=case_outcome
    )


def reported(models: Mapping[str, Figures], clean: float = 0.8) -> list[CaseRecord]:
    """The cases of models: label -> figures."""
    records = []
    for label, attacks in models.items():
        for attack, values in attacks.items():
            run_case, pairs = case(attack, label), [(clean, value) for value in values or ()]
            case_outcome = outcome(pairs, pairs, run_case, label or "net") if values else None
            records.append(back(run_case, case_outcome))
    return records


def ranks(models: Mapping[str, Figures], missing: Sequence[str] = (), clean: float = 0.8) -> Ranks:
    return ranks_of(reported(models, clean), missing, ZOO, GATE)


def test_a_model_is_ranked_by_its_weighted_accuracy_in_each_repeat() -> None:
    """Formed inside the repeats, over the attacks that both sides have and no attack."""
    ranking = ranks({"": {"injection/rnd": (0.4, 0.8), "modification/rnd": (0.0, 0.0)}})
    (standing,) = ranking.standings
    first, second = 4 / 5, 1 / 5  # 1 and 1 / 4, normalised
    assert standing.figure == pytest.approx((first * 0.4 + second * 0.8 + 0.8) / 2)
    assert (standing.rank, standing.competitors, standing.attacks) == (2, 3, 1)
    assert standing.missing == ("injection/pgd",)
    assert (standing.group, standing.model, ranking.notes) == ("tiny/easy", "net", ())
    assert standing.better == RankedEntry(1, "strong", pytest.approx(0.8))
    assert standing.worse is not None
    assert (standing.worse.rank, standing.worse.name) == (2, "weak")
    assert list(ranking.of_cases) == [node_id_of(case("injection/rnd"))]


@pytest.mark.parametrize(
    ("models", "missing", "clean", "note"),
    [
        (
            {"": {"injection/rnd": (0.4,), "injection/pgd": None}},
            (),
            0.8,
            "no rank on tiny/easy: 1 of 2 cases has no figures (tiny/easy/injection/pgd)",
        ),
        (
            {"": {"injection/rnd": (0.4,)}},
            ("injection/pgd", "modification/rnd"),
            0.8,
            "no rank on tiny/easy: 2 of 3 cases have no figures (tiny/easy/injection/pgd and 1 "
            "more)",
        ),
        (
            {"": {"injection/rnd": (0.4,)}},
            (),
            0.4,
            "no rank on tiny/easy: its clean accuracy of 40.0% is below the floor of 50.0%",
        ),
        (
            {"a": {"injection/rnd": (0.4,), "injection/pgd": None}},
            (),
            0.8,
            "no rank of a on tiny/easy: 1 of 2 cases has no figures (a@tiny/easy/injection/pgd)",
        ),
    ],
)
def test_a_model_without_a_rank_has_a_note(
    models: Mapping[str, Figures], missing: Sequence[str], clean: float, note: str
) -> None:
    """Cases without figures, that never came back or do not belong together, or a low accuracy."""
    ranking = ranks(models, [node_id_of(case(attack)) for attack in missing], clean)
    assert (ranking.standings, ranking.notes) == ((), (note,))


def test_a_model_without_any_figure_has_no_note() -> None:
    """Its errors say more."""
    ranking = ranks({"a": {"injection/rnd": None}}, [], 0.8)
    assert (ranking.standings, ranking.notes) == ((), ())


def test_figures_that_do_not_belong_together_are_not_ranked() -> None:
    """Several models or tests, as when a fixture has parameters, with ids of other plugins."""
    rated_case = case("injection/rnd")

    def of(*tests: tuple[str, str, float]) -> Ranks:
        rows = []
        for name, model, attacked in tests:
            case_outcome = outcome([(0.8, attacked)], [(0.8, attacked)], rated_case, model)
            rows.append(
                back(
                    rated_case,
                    case_outcome,
                    node_id_of(rated_case).replace("easy/", f"{name}easy/") + "@x",
                )
            )
        return ranks_of(rows, (), ZOO, GATE)

    assert of(("", "net", 0.4)).standings[0].rank == 2
    assert of(("a-", "net", 0.4), ("b-", "net", 0.4)).standings[0].rank == 2
    (note,) = of(("a-", "net", 0.4), ("b-", "net", 0.3)).notes
    assert note.endswith("several tests of tiny/easy/injection/rnd have different figures")
    (note,) = of(("a-", "a", 0.4), ("b-", "b", 0.4)).notes
    assert note.endswith("its cases are of several models (a, b)")


def test_the_standing_under_one_attack_is_known_from_its_outcome() -> None:
    """On each leaderboard that has the attack, unless the model or the data is not comparable."""
    case_outcome = outcome([(0.8, 0.5)], [(0.8, 0.5)], case("injection/rnd"))
    (standing,) = standings_of(case_outcome, ZOO, GATE)
    assert (standing.attack, standing.rank, standing.figure) == ("injection/rnd", 2, 0.5)
    assert standing.better is not None
    assert standing.better.name == "strong"
    other = replace(BOARD, fingerprint="0" * 64)
    same = replace(BOARD.among(["weak"]), fingerprint=case_outcome.dataset)
    (standing,) = standings_of(case_outcome, Boards(of={"tiny": (other, same)}), GATE)
    assert (standing.rank, standing.competitors, standing.better) == (1, 2, None)
    assert standings_of(case_outcome, Boards(), GATE) == ()
    assert standings_of(case_outcome, ZOO, Gate(min_clean=0.81)) == ()
    stranger = outcome([(0.8, 0.5)], [(0.8, 0.5)], case("modification/rnd"))
    assert standings_of(stranger, ZOO, GATE) == ()


def test_the_models_of_a_run_are_ranked_over_the_attacks_that_all_have() -> None:
    """By weighted accuracy and under each attack; a single ranked model gives nothing."""
    models: dict[str, Figures] = {
        "a": {"injection/rnd": (0.4,), "injection/pgd": (0.7,)},
        "b": {"injection/rnd": (0.6,), "modification/rnd": (0.1,)},
        "c": {"injection/rnd": None},
    }
    result = comparisons(reported(models), (), GATE)
    assert list(result) == ["tiny/easy", "tiny/easy/injection/rnd"]
    for order in result.values():
        assert [(standing.rank, standing.name) for standing in order] == [(1, "b"), (2, "a")]
    assert comparisons(reported({"a": models["a"]}), (), GATE) == {}


def test_a_published_defence_stands_where_it_was_printed() -> None:
    """R-GCN+AT of Table 13, ranked by its own figures, is first."""
    board = published_board("grb-cora")
    assert board is not None
    others = [defence for defence in board.defences if defence != "R-GCN+AT"]
    clean = board.cells[NO_ATTACK]["R-GCN+AT"]["full"].mean
    rows = []
    for attack in board.attacks:
        board_case = Case("grb-cora", "full", *attack.split("/"))
        pairs = [(clean, board.cells[attack]["R-GCN+AT"]["full"].mean)]
        rows.append(back(board_case, outcome(pairs, pairs, board_case)))
    ranking = ranks_of(rows, (), Boards(of={"grb-cora": (board.among(others),)}), GATE)
    (standing,) = ranking.standings
    assert (standing.rank, standing.competitors) == (1, 10)
    assert standing.worse is not None
    assert standing.worse.name == "GAT+AT"


def test_ranks_are_cheap() -> None:
    """Neither torch nor numpy is loaded to rank a model."""
    code = (
        "import sys; from grb_check.ranking import ranks; "
        "from grb_check.ranking.boards import files, published_board; "
        "published_board.published_board('grb-cora'); "
        "sys.exit(bool({'torch', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert done.returncode == 0, done.stderr
