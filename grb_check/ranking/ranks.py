"""Ranks of the models of a run, on leaderboards and among each other. Loads no torch.

Formed from the rows of the built-in cases. The weighted accuracy is GRB's, over the attacks and the
accuracy without attack, formed inside each repeat; see `metrics`. A model is ranked if all cases
that were to run have figures that belong together, and if its clean accuracy is not below the
floor.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from grb_check.cases.case import Case
from grb_check.cases.case_record import CaseRecord, with_lost
from grb_check.cases.metrics import over_repeats, weighted_lowest
from grb_check.cases.node_ids import is_node_id
from grb_check.cases.outcomes import Outcome
from grb_check.cases.target_weights import ACCURACY
from grb_check.errors import count
from grb_check.files.text import fit
from grb_check.gate.limits import Gate, clean_floor
from grb_check.ranking.boards.board import NO_ATTACK, Board, defence_summary
from grb_check.ranking.comparison_models import Boards
from grb_check.ranking.orders import RankedEntry, ranked

Accuracies: TypeAlias = Mapping[str, Sequence[float]]  # attack or NO_ATTACK -> in each repeat


@dataclass(frozen=True, kw_only=True)
class Standing:
    """A model's rank among the defences of a leaderboard.

    Attributes:
        board: its name.
        model: name.
        label: the name in ids; empty if the run has one model.
        dataset: name.
        difficulty: name.
        attack: name; empty if the accuracy is weighted over attacks.
        figure: the model's accuracy, or weighted accuracy.
        rank: 1 + the number of defences that are strictly better.
        competitors: number of defences, plus 1 for the model itself.
        better: the next defence that is strictly better; None if there is none.
        worse: the next defence that is strictly worse; None if there is none.
        attacks: number of attacks that the figure is over.
        missing: attacks of the leaderboard that the model was not evaluated under.
    """

    board: str
    model: str
    label: str
    dataset: str
    difficulty: str
    attack: str
    figure: float
    rank: int
    competitors: int
    better: RankedEntry | None
    worse: RankedEntry | None
    attacks: int
    missing: tuple[str, ...]

    @property
    def group(self) -> str:
        """`[model@]dataset/difficulty`."""
        return f"{f'{self.label}@' if self.label else ''}{self.dataset}/{self.difficulty}"


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """Ranks on leaderboards.

    Attributes:
        standings: by weighted accuracy, of each model at each difficulty, on each leaderboard.
        of_cases: node id -> under the attack of that case, on each leaderboard that has it.
        notes: on models without a rank, and on what leaderboards lack.
    """

    standings: tuple[Standing, ...] = ()
    of_cases: dict[str, tuple[Standing, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def ranks_of(
    rows: Sequence[CaseRecord], missing: Iterable[str], boards: Boards, gate: Gate
) -> Ranks:
    """Return the ranks on leaderboards.

    Args:
        rows: of the cases that were reported.
        missing: node ids of cases that were to run and have no verdict.
        boards: of each dataset.
        gate: has the clean floor.
    """
    models = _models(rows, missing, gate)
    result = [
        _weighted(model, board) for model in models for board in boards.of.get(model.dataset, ())
    ]
    of_cases = {
        row.node_id: standings_of(row.outcome, boards, gate)
        for row in rows
        if row.outcome is not None
    }
    reasons = [
        fit(f"no rank{f' of {row.name}' if row.label else ''} on {row.place}: {row.unranked}")
        for row in models
        if row.unranked and (row.label or boards.of.get(row.dataset))
    ]
    return Ranks(
        standings=tuple(standing for standing in result if standing is not None),
        of_cases={node_id: standings for node_id, standings in of_cases.items() if standings},
        notes=(*reasons, *boards.notes),
    )


def comparisons(
    rows: Sequence[CaseRecord], missing: Iterable[str], gate: Gate
) -> dict[str, tuple[RankedEntry, ...]]:
    """Rank the run's models among each other, over the attacks that all ranked models have.

    Args:
        rows: of the cases that were reported.
        missing: node ids of cases that were to run and have no verdict.
        gate: has the clean floor.

    Returns:
        `dataset/difficulty` -> models by weighted accuracy; `dataset/difficulty/scenario/attack` ->
        by accuracy under one attack. Nothing for a single model.
    """
    groups: dict[str, dict[str, Accuracies]] = {}
    for model in _models(rows, missing, gate):
        if model.accuracies:
            groups.setdefault(model.place, {})[model.name] = model.accuracies
    result = {}
    for position, models in groups.items():
        first, *others = models.values()
        common = [row for row in first if all(row in other for other in others)]
        attacks = [row for row in common if row != NO_ATTACK]
        if len(models) > 1 and attacks:
            result[position] = _by_weighted(models, common)
            result |= {f"{position}/{row}": _by_weighted(models, [row]) for row in attacks}
    return result


def standings_of(outcome: Outcome, boards: Boards, gate: Gate) -> tuple[Standing, ...]:
    """Return the ranks of a model under the attack of one case, on each leaderboard that has it.

    None if its clean accuracy is below the floor; leaderboards that were measured on other data are
    left out.
    """
    if outcome.clean < clean_floor(outcome, gate)[0] or outcome.metric != ACCURACY:
        return ()
    case = outcome.case
    attack = f"{case.scenario}/{case.attack}"
    model = _Model(outcome.model, case.model, case.dataset, case.difficulty, {}, "")
    return tuple(
        _standing(
            model,
            board,
            outcome.attacked,
            {
                defence: board.cells[attack][defence][case.difficulty].mean
                for defence in board.defences
            },
            attack=attack,
        )
        for board in boards.of.get(case.dataset, ())
        if board.fingerprint in ("", outcome.dataset) and board.has(case)
    )


def rank_over_difficulties(
    rows: Sequence[CaseRecord], board: Board, gate: Gate
) -> tuple[int, int] | None:
    """Return a model's rank by its mean weighted accuracy over the difficulties, and of how many.

    Args:
        rows: of one model on the dataset of the leaderboard.
        board: of these data.
        gate: has the clean floor.

    Returns:
        None if the model is not ranked at one of them.
    """
    result = [_weighted_beside(model, board) for model in _models(rows, (), gate)]
    sides = [side for side in result if side is not None]
    if not sides or len(sides) < len(result):
        return None
    accuracy = statistics.fmean(mine for mine, _ in sides)
    others = [statistics.fmean(theirs[name] for _, theirs in sides) for name in board.defences]
    return 1 + sum(other > accuracy for other in others), 1 + len(others)


class _Model(NamedTuple):
    """One model on one dataset at one difficulty; without accuracies, why it is not ranked."""

    name: str
    label: str
    dataset: str
    difficulty: str
    accuracies: Accuracies
    unranked: str

    @property
    def place(self) -> str:
        return f"{self.dataset}/{self.difficulty}"


def _models(rows: Sequence[CaseRecord], missing: Iterable[str], gate: Gate) -> list[_Model]:
    """The models with figures of at least one case."""
    groups: dict[tuple[str, str, str], list[CaseRecord]] = {}
    for row in with_lost(rows, missing):
        if is_node_id(row.node_id):
            case = row.case
            groups.setdefault((case.model, case.dataset, case.difficulty), []).append(row)
    measured = {group: members for group, members in groups.items() if _outcomes(members)}
    return [_model(*group, members, gate) for group, members in measured.items()]


def _outcomes(rows: Iterable[CaseRecord]) -> list[Outcome]:
    return [row.outcome for row in rows if row.outcome is not None]


def _model(
    label: str, dataset: str, difficulty: str, rows: Sequence[CaseRecord], gate: Gate
) -> _Model:
    outcomes = _outcomes(rows)
    lost = [row.case.id for row in rows if row.outcome is None]
    unranked = _lost(lost, len(rows)) if lost else _unlike(outcomes) or _below(outcomes, gate)
    accuracies = {} if unranked else _accuracies(outcomes)
    return _Model(outcomes[0].model, label, dataset, difficulty, accuracies, unranked)


def _lost(lost: Sequence[str], cases: int) -> str:
    verb = "has" if len(lost) == 1 else "have"
    more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
    return f"{len(lost)} of {count(cases, 'case')} {verb} no figures ({lost[0]}{more})"


def _unlike(outcomes: Sequence[Outcome]) -> str:
    """Return why outcomes are not ranked: they do not belong together, or are no accuracies."""
    if any(outcome.metric != ACCURACY for outcome in outcomes):
        return f"its figures are of {outcomes[0].metric}; --grb-metric=accuracy for ranks"
    models = dict.fromkeys(outcome.model for outcome in outcomes)
    if len(models) > 1:
        return f"its cases are of several models ({', '.join(models)})"
    figures: dict[Case, object] = {}
    for outcome in outcomes:
        accuracies = [(repeat.victim.clean, repeat.victim.attacked) for repeat in outcome.repeats]
        if figures.setdefault(outcome.case, accuracies) != accuracies:
            return f"several tests of {outcome.case.id} have different figures"
    return ""


def _below(outcomes: Sequence[Outcome], gate: Gate) -> str:
    for outcome in outcomes:
        floor, _ = clean_floor(outcome, gate)
        if outcome.clean < floor:
            return f"its clean accuracy of {outcome.clean:.1%} is below the floor of {floor:.1%}"
    return ""


def _accuracies(outcomes: Sequence[Outcome]) -> Accuracies:
    attacked = {
        f"{outcome.case.scenario}/{outcome.case.attack}": tuple(
            repeat.victim.attacked for repeat in outcome.repeats
        )
        for outcome in outcomes
    }
    return {NO_ATTACK: tuple(repeat.victim.clean for repeat in outcomes[0].repeats), **attacked}


def _by_weighted(models: Mapping[str, Accuracies], rows: Sequence[str]) -> tuple[RankedEntry, ...]:
    figures = {model: _weighted_lowest(accuracies, rows) for model, accuracies in models.items()}
    return tuple(ranked(figures, "highest"))


def _weighted_lowest(accuracies: Accuracies, rows: Iterable[str]) -> float:
    return over_repeats(weighted_lowest, [accuracies[row] for row in rows]).mean


def _weighted(model: _Model, board: Board) -> Standing | None:
    """Rank by weighted accuracy over the attacks that model and leaderboard share."""
    result = _weighted_beside(model, board)
    if result is None:
        return None
    missing = tuple(attack for attack in board.attacks if attack not in model.accuracies)
    attacks = len(board.attacks) - len(missing)
    return _standing(model, board, *result, attacks=attacks, missing=missing)


def _weighted_beside(model: _Model, board: Board) -> tuple[float, dict[str, float]] | None:
    """Weighted accuracies of model and defences over the attacks that both have.

    The accuracy without attack is part of them on both sides. None if they share nothing.
    """
    common = [attack for attack in board.attacks if attack in model.accuracies]
    if model.difficulty not in board.difficulties or not common:
        return None
    others = {
        defence: defence_summary(board, defence, model.difficulty, "weighted", common).mean
        for defence in board.defences
    }
    return _weighted_lowest(model.accuracies, (*common, NO_ATTACK)), others


def _standing(
    model: _Model,
    board: Board,
    figure: float,
    others: Mapping[str, float],
    *,
    attack: str = "",
    attacks: int = 1,
    missing: tuple[str, ...] = (),
) -> Standing:
    order = ranked(others, "highest")
    better = [competitor for competitor in order if competitor.figure > figure]
    worse = [competitor for competitor in order if competitor.figure < figure]
    return Standing(
        board=board.name,
        model=model.name,
        label=model.label,
        dataset=model.dataset,
        difficulty=model.difficulty,
        attack=attack,
        figure=figure,
        rank=1 + len(better),
        competitors=1 + len(others),
        better=better[-1] if better else None,
        worse=worse[0] if worse else None,
        attacks=attacks,
        missing=missing,
    )
