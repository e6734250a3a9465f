"""The result of a run that has a baseline: the joint verdicts, or the file written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from grb_check.cases.case import Case
from grb_check.cases.case_record import CaseRecord
from grb_check.cases.node_ids import is_node_id
from grb_check.cases.shards import Shard
from grb_check.errors import count
from grb_check.files.outputs import reason, shown
from grb_check.gate.baselines.baseline import REPEATS, Baseline, key_of
from grb_check.gate.baselines.environment_notes import environment_notes
from grb_check.gate.baselines.files import BaselineCase, entry_of, is_user_test
from grb_check.gate.baselines.joint import JointComparison, ModelOnDataset
from grb_check.gate.baselines.looks import MOST, OF_ALL_CASES, in_doubt
from grb_check.gate.baselines.uncompared import uncompared, without_figures

OPEN: Final = "inconclusive"
FEW: Final = 10  # repeats; with fewer, a loss of 3 points of a trained model is often missed


@dataclass(frozen=True, kw_only=True)
class BaselineResult:
    """Results of the baseline at the end of a run.

    Attributes:
        baseline: of the run.
        joint: the verdicts on all cases of each model and dataset that has an entry, or should.
        environment: the checks of each dataset, if its environment has to be the baseline's.
        unused: keys of entries that no case of the run has.
        written: number of entries that this run made for the file; None if it was not to write
            it, or could not.
        failed: whether it could not be written.
        notes: to report.
    """

    baseline: Baseline
    joint: tuple[JointComparison, ...] = ()
    unused: tuple[str, ...] = ()
    written: int | None = None
    failed: bool = False
    notes: tuple[str, ...] = ()

    @property
    def unrequested(self) -> bool:
        """Whether a file was written because there was none: the user has to commit it."""
        return self.written is not None and not self.baseline.requested

    @property
    def where(self) -> str:
        """The path of the file, relative to the working directory if it lies below that."""
        return shown(self.baseline.path)


def baseline_result(
    baseline: Baseline,
    rows: Sequence[CaseRecord],
    planned: Sequence[Case],
    environment: Mapping[str, str],
    further: Mapping[Case, BaselineCase],
    *,
    cut_short: bool,
    shard: Shard | None,
) -> BaselineResult:
    """Judge all cases jointly, or write the file.

    Args:
        baseline: of the run.
        rows: of the cases that were reported.
        planned: the cases of the whole run.
        environment: versions of packages, and the processor, by name.
        further: entries of cases that were measured in more repeats.
        cut_short: whether the run stopped before its end.
        shard: the part of a run that this is; None for a whole run.
    """
    if baseline.writes:
        return _written(baseline, rows, environment, cut_short=cut_short)
    baseline = baseline.completed(
        {key_of(row.node_id, row.case): entry_of(row.outcome) for row in rows if row.outcome}
    )
    keys = {case.id for case in planned} | {key_of(row.node_id, row.case) for row in rows}
    unused = tuple(key for key in baseline.unused(keys) if not is_user_test(key))
    few = [] if baseline.revision else _few_repeats(baseline.entries)
    notes = [*_unmeasured(baseline), *few, *baseline.notes]
    notes += [] if baseline.revision else _undecided(rows)
    notes += environment_notes(baseline, rows, environment)
    if unused and not baseline.revision:
        some = ", ".join(unused[:3]) + (f" and {len(unused) - 3} more" if unused[3:] else "")
        notes.append(
            f"{count(len(unused), 'entry', 'entries')} of the baseline without a "
            f"case in this run ({some}); to remove them, delete the file and write it again"
        )
    if shard is not None:
        notes.append(
            f"no joint verdict on all cases: this is part {shard}; python -m grb_check merge gives "
            f"one"
        )
    now = {**entries_of(rows), **further} if shard is None else {}
    joint = baseline.compare_jointly(now, planned, explained_by(rows))
    notes += _not_looked_at_again(baseline, joint)
    joint += without_figures(baseline, rows, planned)
    if shard is None and (baseline.entries or not baseline.revision):  # else every model is new
        joint += uncompared(baseline, rows, planned)
    return BaselineResult(
        baseline=baseline,
        joint=joint,
        unused=unused,
        notes=tuple(notes),
    )


def why_unjudged(rows: Sequence[CaseRecord]) -> str:
    """Return why none of these cases was compared."""
    if not rows:
        return "no case ran"
    if not any(row.outcome for row in rows):
        return "no case has figures"
    if any(row.verdict for row in rows):
        return "the other side has none of these cases"
    return "no case has a verdict; tests that take grb_verdict have one"


def explained_by(rows: Sequence[CaseRecord]) -> set[ModelOnDataset]:
    """Return the models and datasets with a case whose loss is one of clean accuracy."""
    return {
        (row.case.model, row.case.dataset)
        for row in rows
        if row.comparison is not None and row.comparison.explained and is_node_id(row.node_id)
    }


def entries_of(rows: Sequence[CaseRecord]) -> dict[Case, BaselineCase]:
    """Return the entries of the built-in cases, which are compared jointly."""
    return {
        row.case: entry_of(row.outcome)
        for row in rows
        if row.outcome is not None and is_node_id(row.node_id)
    }


def _unmeasured(baseline: Baseline) -> list[str]:
    """Return a note if cases could not be measured at the base."""
    reasons = list(baseline.unmeasured.values())
    return [f"{count(len(reasons), 'case')} {reasons[0]}"] if reasons else []


def _not_looked_at_again(baseline: Baseline, joint: Sequence[JointComparison]) -> list[str]:
    """Return a note if all cases are in doubt, in a run of parts that are not measured again."""
    doubtful = any(
        loss.accuracy == "attacked" and in_doubt(loss.comparison, OF_ALL_CASES) for loss in joint
    )
    if not doubtful or not baseline.first or baseline.joint_looks:
        return []
    return [
        f"all cases together were compared in their first {baseline.first} repeats, which did not "
        f"decide it; a run that is not divided measures further ones"
    ]


def _undecided(rows: Sequence[CaseRecord]) -> list[str]:
    """Return a note if cases are in doubt that a file cannot decide."""
    open_cases = [row for row in rows if row.comparison and row.comparison.result == OPEN]
    if not open_cases:
        return []
    return [
        f"{count(len(open_cases), 'case')} undecided: the file has the repeats that it has; "
        f"--grb-base measures both sides in further ones until it is decided, up to {MOST}"
    ]


def _few_repeats(entries: Mapping[str, BaselineCase]) -> list[str]:
    """Return a note if entries have few repeats, of which the tests have little power."""
    few = [entry.repeats for entry in entries.values() if entry.repeats < FEW]
    if not few:
        return []
    return [
        f"{len(few)} of {count(len(entries), 'entry', 'entries')} of the baseline have fewer "
        f"than {FEW} repeats (the "
        f"least {min(few)}), with which a loss of 3 points of a retrained model is often not "
        f"detected; --grb-repeats={REPEATS} --grb-update-baseline writes them again"
    ]


def _written(
    baseline: Baseline,
    rows: Sequence[CaseRecord],
    environment: Mapping[str, str],
    *,
    cut_short: bool,
) -> BaselineResult:
    # A user's own test that never requests the verdict is never compared either.
    created = {
        key_of(row.node_id, row.case): entry_of(row.outcome)
        for row in rows
        if row.verdict is not None and row.outcome is not None
    }
    if cut_short or not created:
        why = "the run stopped before its end" if cut_short else why_unjudged(rows)
        note = f"{shown(baseline.path)} not written: {why}"
        return BaselineResult(baseline=baseline, notes=(note,))
    try:
        result = baseline.write(created, environment)
    except OSError as error:
        note = f"{shown(baseline.path)} not written: {reason(error)}"
        return BaselineResult(baseline=baseline, failed=True, notes=(note,))
    retained = result.retained
    entries = count(len(created), "entry", "entries")
    text = f"{entries} written to {shown(baseline.path)}" + (
        f", {retained} kept" if retained else ""
    )
    if result.unchanged:
        text = f"{shown(baseline.path)} unchanged: {entries} of this run already there"
    notes = [text, *_few_repeats(created), *baseline.notes]
    if retained:
        notes += environment_notes(baseline, (), environment)
    return BaselineResult(baseline=baseline, written=len(created), notes=tuple(notes))
