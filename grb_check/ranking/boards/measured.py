"""A leaderboard from the cases of runs. Loads no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from grb_check.attacks.names import WORST, base_name
from grb_check.cases.case import DIFFICULTIES
from grb_check.cases.expected_cases import Row
from grb_check.cases.node_ids import is_node_id
from grb_check.cases.outcomes import Outcome
from grb_check.errors import UsageError
from grb_check.models.zoo import known
from grb_check.ranking.boards.board import NO_ATTACK, Board, Cell, Key

LEFT_OUT: Final = "left out"


@dataclass(frozen=True, kw_only=True)
class MeasuredRun:
    """What a leaderboard takes from a run.

    Attributes:
        name: of its file, for messages.
        targets: label of a model -> what is imported.
        rows: its cases.
        split: rule of the split, `grb` or `given`.
        about: lines on what measured it.
    """

    name: str
    targets: Mapping[str, str]
    rows: Sequence[Row]
    split: str
    about: tuple[str, ...]


def boards_of(runs: Sequence[MeasuredRun]) -> list[Board]:
    """Return the leaderboard of each dataset of these runs.

    It has the built-in cases, but for `worst`, which is made of others. A model that lacks one of
    the cases is left out, and `about` says so.

    Raises:
        UsageError: no dataset has a model with all cases; or runs are of other data, have another
            split or number of repeats, or the same case of the same model.
    """
    every = [(run, row) for run in runs for row in run.rows if _counts(row)]
    groups: dict[str, list[tuple[MeasuredRun, Row]]] = {}
    for run, row in every:
        groups.setdefault(row.case.dataset, []).append((run, row))
    found = [_board(dataset, members) for dataset, members in groups.items()]
    boards = [each for each in found if each.defences]
    if not boards:
        lines = [line for each in found for line in each.about if line.startswith(LEFT_OUT)]
        raise UsageError(
            f"no model is left for a leaderboard ({'; '.join(lines) or 'there are no cases'}); "
            f"give runs whose models all have figures in the same cases"
        )
    return boards


def _board(dataset: str, every: Sequence[tuple[MeasuredRun, Row]]) -> Board:
    """The leaderboard of a dataset; without any defences if no model has all cases."""
    measured = [(run, row, row.outcome) for run, row in every if row.outcome is not None]
    models: dict[str, str] = {}
    for run, row in every:
        label = row.outcome.model if row.outcome is not None else row.case.model
        title, model = _title(label, run)
        models[title] = model
    cells: dict[Key, Cell] = {}
    attacks: dict[str, Outcome] = {}
    for run, row, outcome in measured:
        attack, level = f"{row.case.scenario}/{row.case.attack}", row.case.difficulty
        title, _ = _title(outcome.model, run)
        attacks.setdefault(attack, outcome)
        if (attack, title, level) in cells:
            raise UsageError(
                f"{run.name}: {title} under {attack} at {level} is in another run, too; give each "
                f"model once, or another label by LABEL=..."
            )
        cells[attack, title, level] = Cell.of([each.victim.attacked for each in outcome.repeats])
        clean = Cell.of([each.victim.clean for each in outcome.repeats])
        cells.setdefault((NO_ATTACK, title, level), clean)
    outcomes = [outcome for _, _, outcome in measured]
    _refuse_unlike(dataset, "fingerprint", {each.dataset for each in outcomes})
    _refuse_unlike(dataset, "split", {run.split for run, _ in every})
    _refuse_unlike(dataset, "number of repeats", {len(each.repeats) for each in outcomes})
    levels = tuple(each for each in DIFFICULTIES if each in {level for _, _, level in cells})
    places = [(attack, level) for attack in attacks for level in levels]
    lacking = {
        title: [
            f"{attack} at {level}"
            for attack, level in places
            if (attack, title, level) not in cells
        ]
        for title in models
    }
    kept = {title: model for title, model in models.items() if measured and not lacking[title]}
    about = [*dict.fromkeys(line for run, _ in every for line in run.about)]
    for outcome in outcomes[:1]:
        about += [
            f"dataset {dataset}: {outcome.origin}, fingerprint {outcome.dataset}",
            f"repeats: {len(outcome.repeats)}, each with its own training and attack",
        ]
    about += [f"model {title}: {model}" for title, model in kept.items() if ":" in model]
    about += [f"attack {name}: {each.attack or 'of no version'}" for name, each in attacks.items()]
    about += [
        f"{LEFT_OUT} {title}: no figures under {(*lacking[title], 'any attack')[0]}"
        for title in models
        if title not in kept
    ]
    return Board(
        name=dataset,
        dataset=dataset,
        difficulties=levels,
        attacks=tuple(attacks),
        adaptive=tuple(name for name, each in attacks.items() if each.adaptive),
        defences=tuple(kept),
        cells={key: cell for key, cell in cells.items() if key[1] in kept},
        models=kept,
        fingerprint=outcomes[0].dataset if outcomes else "",
        split=every[0][0].split,
        about=tuple(about),
    )


def _counts(row: Row) -> bool:
    return is_node_id(row.node_id) and base_name(row.case.attack) != WORST


def _title(label: str, run: MeasuredRun) -> tuple[str, str]:
    """Return the title of a model, and the name and version of a reference model or the target."""
    label = label or next(iter(run.targets))  # a run of a single model has it in no id
    target = run.targets.get(label, label)
    entry = known(target)
    if entry is None:
        return label, target
    return (entry.title if label == entry.name else label), entry.described


def _refuse_unlike(dataset: str, what: str, found: set[object]) -> None:
    if len(found) > 1:
        listed = " and ".join(sorted(map(str, found)))
        raise UsageError(
            f"the runs on {dataset} cannot be on one leaderboard: their {what} is {listed}; give "
            f"runs that measured alike"
        )
