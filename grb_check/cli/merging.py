"""The parts of a run judged together, as if they had been one run. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from msgspec.structs import replace as replace_fields

from grb_check.cases.case import Case
from grb_check.cases.case_record import CaseRecord
from grb_check.cases.expected_cases import inconsistent
from grb_check.cli import shard_records as shards
from grb_check.cli.part_differences import differences
from grb_check.cli.shard_records import Part
from grb_check.datasets import Places, Source
from grb_check.datasets.formats.grb_files import GRB_FILES
from grb_check.datasets.formats.tu_dataset import TU_DATASET
from grb_check.errors import UsageError, count
from grb_check.gate.baselines.baseline import LOSS_MARGIN, Baseline, open_baseline
from grb_check.gate.baselines.result import BaselineResult, baseline_result
from grb_check.ranking.comparison_models import (
    Boards,
    boards_for,
    check_data,
    read_comparison_models,
)
from grb_check.reports.record import RunRecord, RunSettings
from grb_check.reports.recording import record_of
from grb_check.settings.raw_values import split_at_commas
from grb_check.settings.selected import ranks_are_optional


@dataclass(frozen=True, kw_only=True)
class Whole:
    """A run that was put together.

    Attributes:
        record: of the whole run.
        rows: its cases.
        baseline: the comparison with it; None if the run has none.
        absent: parts that were not given, as `3/4`.
    """

    record: RunRecord
    rows: Sequence[CaseRecord]
    baseline: BaselineResult | None
    absent: Sequence[str]


def merge(
    parts: Sequence[Part], kept: Baseline | None = None, *, allow_different: bool = False
) -> Whole:
    """Judge once, over all cases, what the parts could not judge alone.

    Args:
        parts: of one run.
        kept: the baseline, see `read_baseline`.
        allow_different: whether parts may be of other code, versions or weights; a note says so.

    Raises:
        UsageError: the parts are not of one run or of one code, a case is in two of them, or a
            leaderboard is missing or another one.
        DataError: a leaderboard cannot be read.
    """
    shards.check_alike(parts)
    notes = _differences(parts, allowed=allow_different)
    rows = shards.joined_rows(parts)
    plan = shards.joined_plan(parts, rows)
    missing = shards.joined_missing(parts, rows, plan)
    settings = replace_fields(parts[0].record.settings, models=shards.joined_models(parts))
    boards = _boards(settings, plan.cases)
    _check_boards(boards, rows)
    environment = shards.joined_environment(parts)
    end = None
    if kept is not None:
        end = baseline_result(
            kept, rows, plan.cases, environment, cut_short=bool(missing), shard=None
        )
    record = record_of(
        settings,
        rows,
        missing=missing,
        plan=plan,
        boards=boards,
        baseline=end,
        environment=environment,
        notes=notes,
        date=max(each.record.date for each in parts),
        commit=parts[0].record.commit,
    )
    return Whole(record=record, rows=rows, baseline=end, absent=shards.absent(parts))


def _differences(parts: Sequence[Part], *, allowed: bool) -> list[str]:
    """Return the notes on how parts differ, and those that merged parts have.

    Raises:
        UsageError: they differ so that they are not of one run, and that is not allowed.
    """
    found = differences(parts)
    refused = [each.text for each in found if each.refused]
    if refused and not allowed:
        raise UsageError(
            f"the parts are not of one run: {'; '.join(refused)}; run all parts from one commit "
            f"with the same versions, or give --allow-different, which every report then says"
        )
    notes = [note for part in parts for note in part.record.notes]
    return list(dict.fromkeys([*notes, *(f"merged parts differ: {each.text}" for each in found)]))


def _boards(settings: RunSettings, cases: Sequence[Case]) -> Boards:
    """The leaderboards that the settings ask for, on this machine."""
    return boards_for(
        read_comparison_models(split_at_commas([settings.rank_against]), Path),
        cases,
        [
            Source(name, TU_DATASET if name in settings.graph_sets else GRB_FILES, Path(name))
            for name in settings.datasets
        ],
        Places(split=settings.split, training=settings.training, features=settings.features),
        optional=ranks_are_optional(settings.origins),
    )


def read_baseline(
    parts: Sequence[Part], path: Path | None, *, update: bool, pin_label: str | None
) -> Baseline | None:
    """Return the baseline that the parts were compared with, or the one to write; None without one.

    Args:
        parts: of one run.
        path: of the file, if it is not the one that the parts name.
        update: whether to write it.
        pin_label: label of its pin, if that is to be moved to this run.

    Raises:
        UsageError: the parts are not of one run, the file is missing or another one, or the pin is
            to be moved in a baseline that is not written.
    """
    shards.check_alike(parts)
    kept = _baseline(parts, path, update=update)
    return kept if pin_label is None else _with_label(kept, pin_label)


def _baseline(parts: Sequence[Part], path: Path | None, *, update: bool) -> Baseline | None:
    before, models = parts[0].record.baseline, parts[0].record.settings.models
    model = models[0].label if len(models) == 1 else ""
    if path is None and update:
        raise UsageError("--update-baseline needs the file to write; add --baseline FILE")
    if before is None:
        return None if path is None else _new_baseline(path, model, update=update)
    file = path or Path(before.path)
    if not file.exists() and not update:
        raise UsageError(
            f"the baseline {str(file)!r} that the parts were compared with is not here; name it "
            f"with --baseline FILE"
        )
    kept = open_baseline(file, before.margin, model, update=update)
    if not update and len(kept.entries) != before.tests:
        raise UsageError(
            f"the baseline {str(file)!r} has {count(len(kept.entries), 'entry', 'entries')}, "
            "and the parts were "
            f"compared with one of {before.tests}; give the same file"
        )
    if not update and before.digest != kept.saved.digest:
        raise UsageError(
            f"the baseline {str(file)!r} has other figures than the one that the parts were "
            f"compared with; give the same file"
        )
    return kept


def _with_label(kept: Baseline | None, label: str) -> Baseline:
    if kept is None or not kept.writes:
        raise UsageError(
            "--pin moves the pin when the baseline is written, and nothing is; add --baseline FILE "
            "--update-baseline, or leave --pin out"
        )
    return replace(kept, pin_label=label)


def _new_baseline(path: Path, model: str, *, update: bool) -> Baseline:
    if path.exists() and not update:
        raise UsageError(
            f"the parts were not compared with a baseline; run them with --grb-baseline={path}, or "
            f"add --update-baseline to write the file"
        )
    return open_baseline(path, LOSS_MARGIN, model, update=update)


def _check_boards(boards: Boards, rows: Sequence[CaseRecord]) -> None:
    """Check that leaderboards are of the data that the parts saw."""
    seen = {(row.case.dataset, row.outcome.dataset) for row in rows if row.outcome is not None}
    several = inconsistent(seen)
    for dataset, fingerprint in sorted(seen):
        if dataset not in several:
            check_data(boards, dataset, fingerprint)
