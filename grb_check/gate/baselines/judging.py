"""The end of a run that has a baseline: the joint verdicts, or the file written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from grb_check.cases.case import Case
from grb_check.cases.expected_cases import Row
from grb_check.cases.shards import Shard
from grb_check.files.whole import shown
from grb_check.gate.baselines.baseline import ALPHA, Baseline, Together, is_own_test, key_of
from grb_check.gate.baselines.compare import why_incomparable
from grb_check.gate.baselines.files import entry_of


@dataclass(frozen=True, kw_only=True)
class BaselineEnd:
    """What there is to say when all cases are back.

    Attributes:
        baseline: of the run.
        together: the joint verdicts.
        unused: keys of entries that no case of the run has.
        written: how many entries this run wrote; None where it wrote no file.
        notes: for people.
    """

    baseline: Baseline
    together: tuple[Together, ...] = ()
    unused: tuple[str, ...] = ()
    written: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def unasked(self) -> bool:
        """Whether a file was written because there was none: a person has to commit it."""
        return self.written is not None and not self.baseline.asked

    @property
    def where(self) -> str:
        """The file, from the working folder on where it lies below that."""
        return shown(self.baseline.path)

    def record(self) -> dict[str, Any]:
        """Builtin types, for the run record."""
        return {
            "path": self.where,
            "margin": self.baseline.margin,
            "alpha": ALPHA,
            "tests": len(self.baseline.entries),
            "digest": self.baseline.digest,
            "written": self.written is not None,
            "asked": self.baseline.asked,
            "unused": list(self.unused),
            "together": [
                {"name": each.name, "model": each.model, "dataset": each.dataset}
                | asdict(each.comparison)
                for each in self.together
            ],
            "notes": list(self.notes),
        }


def end_of(
    baseline: Baseline,
    rows: Sequence[Row],
    planned: Sequence[Case],
    *,
    cut_short: bool,
    shard: Shard | None,
) -> BaselineEnd:
    """Judge all cases together, or write the file.

    Args:
        baseline: of the run.
        rows: what came back.
        planned: the cases of the whole run.
        cut_short: whether it ended before its end.
        shard: the part of the whole that this is.
    """
    if baseline.writes:
        return _written(baseline, rows, cut_short=cut_short)
    keys = {each.id for each in planned} | {key_of(row.node_id, row.case) for row in rows}
    unused = tuple(each for each in baseline.unused(keys) if not is_own_test(each))
    notes = [*_uncompared(rows), *_other_perturbations(baseline, rows), *baseline.notes]
    if unused:
        some = ", ".join(unused[:3]) + (f" and {len(unused) - 3} more" if unused[3:] else "")
        notes.append(
            f"{len(unused)} {'entry' if len(unused) == 1 else 'entries'} of the baseline without a "
            f"case in this run ({some}); if they are to go, delete the file and write it anew"
        )
    if shard is not None:
        notes.append(f"all cases together not judged: part {shard}; python -m grb_check merge does")
        return BaselineEnd(baseline=baseline, unused=unused, notes=tuple(notes))
    together = tuple(baseline.together(rows, planned))
    return BaselineEnd(baseline=baseline, together=together, unused=unused, notes=tuple(notes))


def _uncompared(rows: Sequence[Row]) -> list[str]:
    """That the file said nothing about any case: a run may be green for that alone."""
    found = [row.verdict["comparison"] for row in rows if row.verdict is not None]
    results = [each["result"] for each in found if each is not None]
    if not results:
        return ["nothing was compared with the baseline: no case of this run has a verdict"]
    if set(results) - {"new", "incomparable"}:
        return []
    cases = f"all {len(results)} cases are" if len(results) > 1 else "the only case is"
    return [
        f"nothing was compared with the baseline: {cases} new or not comparable, and held to other "
        f"limits; --grb-update-baseline accepts them"
    ]


def _other_perturbations(baseline: Baseline, rows: Sequence[Row]) -> list[str]:
    """That what a model has no part in was not the same: the tests take it to be."""
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
        f"in {cases} ({found[0]}{', ...' if found[1:] else ''}) the perturbations are others than "
        f"the baseline's, though they do not depend on the model: on another machine, or with "
        f"other libraries, the attacker's surrogate is another, and its luck is in all repeats; "
        f"write the baseline where it is compared"
    ]


def _written(baseline: Baseline, rows: Sequence[Row], *, cut_short: bool) -> BaselineEnd:
    # A test of the user's that never asks for the verdict is never compared either.
    made = [row for row in rows if row.outcome is not None and row.verdict is not None]
    if cut_short or not made:
        why = "the run ended before its end" if cut_short else "no case has figures"
        return BaselineEnd(baseline=baseline, notes=(f"{shown(baseline.path)} not written: {why}",))
    count = baseline.write(made)
    kept = len(set(baseline.entries) - {key_of(row.node_id, row.case) for row in made})
    text = f"{count} entries written to {shown(baseline.path)}" + (f", {kept} kept" if kept else "")
    return BaselineEnd(baseline=baseline, written=count, notes=(text, *baseline.notes))
