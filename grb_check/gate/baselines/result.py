"""The result of a run that has a baseline: the joint verdicts, or the file written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grb_check.cases.case import Case
from grb_check.cases.expected_cases import Row
from grb_check.cases.shards import Shard
from grb_check.files.whole import shown
from grb_check.gate.baselines.baseline import Baseline, JointComparison, is_own_test, key_of
from grb_check.gate.baselines.files import entry_of
from grb_check.gate.baselines.pair import why_incomparable


@dataclass(frozen=True, kw_only=True)
class BaselineResult:
    """Results of the baseline at the end of a run.

    Attributes:
        baseline: of the run.
        joint: the verdicts on all cases of each model and dataset.
        unused: keys of entries that no case of the run has.
        written: number of entries that this run wrote; None if it wrote no file.
        notes: to report.
    """

    baseline: Baseline
    joint: tuple[JointComparison, ...] = ()
    unused: tuple[str, ...] = ()
    written: int | None = None
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
    rows: Sequence[Row],
    planned: Sequence[Case],
    *,
    cut_short: bool,
    shard: Shard | None,
) -> BaselineResult:
    """Judge all cases jointly, or write the file.

    Args:
        baseline: of the run.
        rows: of the cases that were reported.
        planned: the cases of the whole run.
        cut_short: whether the run stopped before its end.
        shard: the part of a run that this is; None for a whole run.
    """
    if baseline.writes:
        return _written(baseline, rows, cut_short=cut_short)
    keys = {each.id for each in planned} | {key_of(row.node_id, row.case) for row in rows}
    unused = tuple(each for each in baseline.unused(keys) if not is_own_test(each))
    notes = [*_nothing_compared(rows), *_other_perturbations(baseline, rows), *baseline.notes]
    if unused:
        some = ", ".join(unused[:3]) + (f" and {len(unused) - 3} more" if unused[3:] else "")
        notes.append(
            f"{len(unused)} {'entry' if len(unused) == 1 else 'entries'} of the baseline without a "
            f"case in this run ({some}); to remove them, delete the file and write it again"
        )
    if shard is not None:
        notes.append(
            f"no joint verdict on all cases: this is part {shard}; python -m grb_check merge gives "
            f"one"
        )
        return BaselineResult(baseline=baseline, unused=unused, notes=tuple(notes))
    joint = baseline.compare_jointly(rows, planned)
    return BaselineResult(baseline=baseline, joint=joint, unused=unused, notes=tuple(notes))


def _nothing_compared(rows: Sequence[Row]) -> list[str]:
    """Return a note if no case was compared, since a run may pass for that alone."""
    found = [row.verdict["comparison"] for row in rows if row.verdict is not None]
    results = [each["result"] for each in found if each is not None]
    if not results:
        return ["nothing was compared with the baseline: no case of this run has a verdict"]
    if set(results) - {"new", "incomparable"}:
        return []
    cases = f"all {len(results)} cases are" if len(results) > 1 else "the only case is"
    return [
        f"nothing was compared with the baseline: {cases} new or not comparable, and judged by "
        f"other limits; --grb-update-baseline accepts them"
    ]


def _other_perturbations(baseline: Baseline, rows: Sequence[Row]) -> list[str]:
    """Return a note if perturbations that do not depend on the model have changed.

    The tests assume that both runs have the same ones.
    """
    found = []
    for row in rows:
        before = baseline.entries.get(key_of(row.node_id, row.case))
        if row.outcome is None or before is None or why_incomparable(before, entry_of(row.outcome)):
            continue
        pairs = zip(before.perturbations, row.outcome.repeats, strict=False)
        if any(
            each.perturbation != was and each.method == "black-box" and not each.member
            for was, each in pairs
        ):
            found.append(row.case.id)
    if not found:
        return []
    cases = "1 case" if len(found) == 1 else f"{len(found)} cases"
    return [
        f"in {cases} ({found[0]}{', ...' if found[1:] else ''}) the perturbations differ from the "
        f"baseline's, though they do not depend on the model: rounding differences between "
        f"machines or libraries lead to another surrogate, whose randomness all repeats share; "
        f"write the baseline on the machine where it is compared"
    ]


def _written(baseline: Baseline, rows: Sequence[Row], *, cut_short: bool) -> BaselineResult:
    # A user's own test that never requests the verdict is never compared either.
    made = [row for row in rows if row.outcome is not None and row.verdict is not None]
    if cut_short or not made:
        why = "the run stopped before its end" if cut_short else "no case has figures"
        note = f"{shown(baseline.path)} not written: {why}"
        return BaselineResult(baseline=baseline, notes=(note,))
    count = baseline.write(made)
    kept = len(set(baseline.entries) - {key_of(row.node_id, row.case) for row in made})
    text = f"{count} entries written to {shown(baseline.path)}" + (f", {kept} kept" if kept else "")
    return BaselineResult(baseline=baseline, written=count, notes=(text, *baseline.notes))
