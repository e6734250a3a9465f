"""The parts of a run judged together, as if they had been one run. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from grb_check.cases.case import is_node_id
from grb_check.cases.expected_cases import Ledger, Row
from grb_check.cli import shard_records as parts_
from grb_check.cli.restoring import settings_of
from grb_check.cli.shard_records import Part
from grb_check.errors import UsageError, one_line
from grb_check.files.whole import check_writable
from grb_check.gate.baselines.baseline import LOSS_MARGIN, Baseline, open_baseline
from grb_check.gate.baselines.result import BaselineResult, baseline_result
from grb_check.ranking.rank_plan import RankPlan, RankVerdict, prepare
from grb_check.ranking.run_ranks import Ranks
from grb_check.reports import json_report
from grb_check.settings.rank_request import rank_request
from grb_check.settings.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Whole:
    """A run that was put together.

    Attributes:
        settings: of it, see `restoring`.
        rows: the cases that came back.
        missing: node ids of those that got no verdict.
        absent: the parts that were not given, as `3/4`.
        torn: datasets of which parts saw different graphs.
        ranks: over all.
        verdicts: what the limits on ranks say.
        baseline: what the baseline says; None where there is none.
        record: of the whole run, see `json_report.record`.
    """

    settings: Settings
    rows: Sequence[Row]
    missing: Sequence[str]
    absent: Sequence[str]
    torn: Sequence[str]
    ranks: Ranks
    verdicts: Sequence[RankVerdict]
    baseline: BaselineResult | None
    record: Mapping[str, Any]


def merge(parts: Sequence[Part], baseline: Path | None = None, *, update: bool = False) -> Whole:
    """Judge once, over all cases, what the parts could not judge alone.

    Args:
        parts: records of the parts of one run, of a version that writes `planned`.
        baseline: the baseline's file, where it is not the one that the parts name.
        update: whether to write it.

    Raises:
        UsageError: they are no parts of one run, a case is in two of them, or a leaderboard or
            the baseline is not there or another one.
        DataError: a leaderboard cannot be read.
    """
    for part in parts:
        parts_.check_fit(part)
    parts_.check_alike(parts)
    rows = parts_.joined_rows(parts)
    plan = parts_.joined_plan(parts, rows)
    missing = parts_.joined_missing(parts, rows, plan)
    settings = _settings(parts[0])
    kept = _baseline(parts, baseline, update=update)
    torn = Ledger(entries={row.node_id: row for row in rows}).torn
    rank_plan = prepare(rank_request(settings), plan.cases)
    _check_boards(rank_plan, rows, torn)
    expected = {row.node_id for row in rows if is_node_id(row.node_id)} | set(missing)
    ranks = rank_plan.ranks(rows, expected)
    verdicts = rank_plan.verdicts(ranks, stopped=False)
    end = None
    if kept is not None:
        end = baseline_result(kept, rows, plan.cases, cut_short=bool(missing), shard=None)
    record = json_report.record(settings, rows, missing, ranks, verdicts, plan)
    record["settings"] = parts[0].record["settings"]
    record["environment"] = parts_.joined_environment(parts)
    record["baseline"] = None if end is None else end.record()
    return Whole(
        settings=replace(settings, baseline=kept),
        rows=rows,
        missing=missing,
        absent=parts_.absent(parts),
        torn=torn,
        ranks=ranks,
        verdicts=verdicts,
        baseline=end,
        record=record,
    )


def _settings(part: Part) -> Settings:
    try:
        return settings_of(part.record["settings"])
    except (KeyError, TypeError, ValueError, SyntaxError) as error:
        raise UsageError(
            f"{part.name} is damaged: its settings cannot be read ({type(error).__name__}: "
            f"{one_line(error)}); give a file that --grb-json wrote"
        ) from None


def _baseline(parts: Sequence[Part], path: Path | None, *, update: bool) -> Baseline | None:
    """The one that the parts were compared with, or the one to write."""
    before = parts[0].record.get("baseline")
    if path is None and update:
        raise UsageError("--update-baseline needs the file to write; add --baseline FILE")
    if before is None:
        return None if path is None else _new_baseline(path, update=update)
    file = path or Path(before["path"])
    if not file.exists() and not update:
        raise UsageError(
            f"the baseline {str(file)!r} that the parts were compared with is not here; name it "
            f"with --baseline FILE"
        )
    kept = open_baseline(file, before["margin"], update=update)
    if not update and len(kept.entries) != before["tests"]:
        raise UsageError(
            f"the baseline {str(file)!r} has {len(kept.entries)} entries, and the parts were "
            f"compared with one of {before['tests']}; give the same file"
        )
    if not update and before.get("digest", kept.digest) != kept.digest:
        raise UsageError(
            f"the baseline {str(file)!r} has other figures than the one that the parts were "
            f"compared with; give the same file"
        )
    return kept


def _new_baseline(path: Path, *, update: bool) -> Baseline:
    if path.exists() and not update:
        raise UsageError(
            f"the parts were compared with no baseline; run them with --grb-baseline={path}, or "
            f"add --update-baseline to write the file"
        )
    check_writable("--baseline", path)
    return open_baseline(path, LOSS_MARGIN, update=update)


def _check_boards(rank_plan: RankPlan, rows: Sequence[Row], torn: Sequence[str]) -> None:
    """Leaderboards have to be of the data that the parts saw."""
    seen = {row.case.dataset: row.outcome.dataset for row in rows if row.outcome is not None}
    for dataset, fingerprint in seen.items():
        if dataset not in torn:
            rank_plan.check_data(dataset, fingerprint)
