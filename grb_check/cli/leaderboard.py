"""Make leaderboards of runs of several models: JSON, and Markdown in GRB's layout."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from grb_check.attacks.names import WORST, base_name
from grb_check.cases.case import DIFFICULTIES
from grb_check.cases.case_record import CaseRecord
from grb_check.cases.node_ids import is_node_id
from grb_check.cases.outcomes import Outcome
from grb_check.cli.console import FAILED, OK, complain, say, tell
from grb_check.datasets import Places
from grb_check.datasets.source import expanded
from grb_check.errors import UsageError
from grb_check.files.versions import MEASURED
from grb_check.models.zoo import known
from grb_check.ranking.boards.board import NO_ATTACK, Board, Cell, Table
from grb_check.ranking.boards.files import FOLDER, check_files, save
from grb_check.reports.record import RunRecord
from grb_check.reports.record_file import read_all

LEFT_OUT: Final = "left out"


@dataclass(frozen=True)
class _Member:
    """A case of a run, with the title of its model, and what that model is."""

    run: str
    record: RunRecord
    case: CaseRecord
    title: str
    model: str

    @property
    def attack(self) -> str:
        return f"{self.case.case.scenario}/{self.case.case.attack}"


def boards_of(runs: Sequence[tuple[str, RunRecord]]) -> list[Board]:
    """Return the leaderboard of each dataset of these runs.

    It has the built-in cases, but for `worst`, which is made of others. A model that lacks one of
    the cases is left out, and `about` says so.

    Args:
        runs: names for messages, and records.

    Raises:
        UsageError: no dataset has a model with all cases; or runs are of other data, have another
            split or number of repeats, or the same case of the same model.
    """
    groups: dict[str, list[_Member]] = {}
    for name, record in runs:
        for case in record.cases:
            if is_node_id(case.node_id) and base_name(case.case.attack) != WORST:
                member = _Member(name, record, case, *_title(case, record))
                groups.setdefault(case.case.dataset, []).append(member)
    result = [_board(dataset, members) for dataset, members in groups.items()]
    boards = [board for board in result if board.defences]
    if not boards:
        lines = [line for board in result for line in board.about if line.startswith(LEFT_OUT)]
        raise UsageError(
            f"no model is left for a leaderboard ({'; '.join(lines) or 'there are no cases'}); "
            f"give runs whose models all have figures in the same cases"
        )
    return boards


def _board(dataset: str, members: Sequence[_Member]) -> Board:
    """The leaderboard of a dataset; without any defences if no model has all cases."""
    measured = [
        (member, member.case.outcome) for member in members if member.case.outcome is not None
    ]
    cells = _cells(measured)
    _refuse_unlike(dataset, "fingerprint", {outcome.dataset for _, outcome in measured})
    repeats = {len(outcome.repeats) for _, outcome in measured}
    _refuse_unlike(dataset, "number of repeats", repeats)
    for title in {member.title for member in members}:
        given = {_arguments(member) for member in members if member.title == title}
        _refuse_unlike(dataset, f"arguments of {title}", given)
    result = {outcome.case.difficulty for _, outcome in measured}
    levels = tuple(difficulty for difficulty in DIFFICULTIES if difficulty in result)
    attacks = tuple(cell for cell in cells if cell != NO_ATTACK)
    outcomes = {
        name: next(outcome for member, outcome in measured if member.attack == name)
        for name in attacks
    }
    lacking = {
        member.title: [
            f"{attack} at {level}"
            for attack, level in product(attacks, levels)
            if level not in cells[attack].get(member.title, {})
        ]
        for member in members
    }
    models = {
        member.title: member.model for member in members if measured and not lacking[member.title]
    }
    return Board(
        name=dataset,
        dataset=dataset,
        difficulties=levels,
        attacks=attacks,
        adaptive=tuple(name for name in attacks if outcomes[name].adaptive),
        defences=tuple(models),
        cells={
            row: {title: by_title[title] for title in models} for row, by_title in cells.items()
        },
        models=models,
        fingerprint=measured[0][1].dataset if measured else "",
        split=members[0].record.settings.split or "",
        about=_about(members, models, lacking, outcomes),
    )


def _cells(measured: Sequence[tuple[_Member, Outcome]]) -> Table[Cell]:
    """The figures of all models by attack, those without attack first.

    Raises:
        UsageError: a model has the same case twice.
    """
    result: Table[Cell] = {NO_ATTACK: {}}
    for member, outcome in measured:
        level = outcome.case.difficulty
        row = result.setdefault(member.attack, {}).setdefault(member.title, {})
        if level in row:
            raise UsageError(
                f"{member.run}: {member.title} under {member.attack} at {level} is in another run, "
                f"too; give each model once, or another label by LABEL=..."
            )
        row[level] = Cell.of([repeat.victim.attacked for repeat in outcome.repeats])
        clean = Cell.of([repeat.victim.clean for repeat in outcome.repeats])
        result[NO_ATTACK].setdefault(member.title, {}).setdefault(level, clean)
    return result


def _about(
    members: Sequence[_Member],
    models: Mapping[str, str],
    lacking: Mapping[str, Sequence[str]],
    outcomes: Mapping[str, Outcome],
) -> tuple[str, ...]:
    """Lines on the origin of a leaderboard.

    Args:
        members: its cases.
        models: that are on it.
        lacking: title -> cases that the model lacks.
        outcomes: attack -> one of its outcomes.
    """
    about = [*dict.fromkeys(_measured_with(member.record) for member in members)]
    for outcome in [*outcomes.values()][:1]:
        about += [
            f"dataset {outcome.case.dataset}: {outcome.origin}, fingerprint {outcome.dataset}",
            f"repeats: {len(outcome.repeats)}, each with its own training and attack",
        ]
    arguments = {member.title: _arguments(member) for member in members}
    about += [
        f"model {title}: {model}{arguments[title]}"
        for title, model in models.items()
        if ":" in model
    ]
    about += [
        f"attack {name}: {outcome.attack or 'of no version'}" for name, outcome in outcomes.items()
    ]
    about += [
        f"{LEFT_OUT} {title}: no figures under {(*lacks, 'any attack')[0]}"
        for title, lacks in lacking.items()
        if title not in models
    ]
    return tuple(about)


def _title(case: CaseRecord, record: RunRecord) -> tuple[str, str]:
    """Return the title of a model, and the name and version of a reference model or the target."""
    targets = {model.label: model.target for model in record.settings.models}
    label = case.outcome.model if case.outcome is not None else case.case.model
    label = label or next(iter(targets))  # a run of a single model has it in no id
    target = targets.get(label, label)
    entry = known(target)
    if entry is None:
        return label, target
    return (entry.title if label == entry.name else label), entry.described


def _arguments(member: _Member) -> str:
    """Return what the factory of the case was given, as `(width=4)`; empty for nothing."""
    specs = member.record.settings.models
    label = member.case.case.model  # a run of a single model has it in no id
    spec = next((spec for spec in specs if spec.label == label), specs[0])
    given = ", ".join(f"{name}={value!r}" for name, value in spec.arguments.items())
    return f"({given})" if given else ""


def _measured_with(record: RunRecord) -> str:
    result = record.environment
    versions = ", ".join(f"{name} {result[name]}" for name in MEASURED if name in result)
    return f"measured with {versions}"


def _refuse_unlike(dataset: str, what: str, values: Collection[object]) -> None:
    if len(values) > 1:
        listed = " and ".join(sorted(map(str, values)))
        raise UsageError(
            f"the runs on {dataset} cannot be on one leaderboard: their {what} is {listed}; give "
            f"runs that measured alike"
        )


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="RUN.json",
        help="file that --grb-json wrote, as of pytest --grb-only --grb-suite=paper "
        "--grb-model=zoo --grb-json=RUN.json; several are put together, as of other models",
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        help="for DATASET.json and .md of each dataset; default: in the data folder, where "
        "--grb-rank-against=zoo looks",
    )


def run(options: argparse.Namespace) -> int:
    """Write the files and return 0; 1 if a model was left out or a file not written."""
    boards = boards_of(list(zip(options.runs, read_all(options.runs), strict=True)))
    folder = expanded(options.out or Places().home / FOLDER)
    for board in boards:
        check_files(board.name, folder)
    failed = False
    for board in boards:
        for line in board.about:
            if line.startswith(LEFT_OUT):
                tell(f"{board.dataset}: {line}")
                failed = True
        for path, why in save(board, folder).items():
            if why:
                complain(why)
                failed = True
            else:
                say(str(path))
    return FAILED if failed else OK
