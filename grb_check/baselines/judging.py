"""The end of a run that has a baseline: the joint verdicts, or the file written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from grb_check.baselines.baseline import ALPHA, Baseline, Together, key_of
from grb_check.cases import Case, is_node_id
from grb_check.ledger import Row
from grb_check.sharding import Shard


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

    def record(self) -> dict[str, Any]:
        """Builtin types, for the run record."""
        return {
            "path": str(self.baseline.path),
            "margin": self.baseline.margin,
            "alpha": ALPHA,
            "tests": len(self.baseline.entries),
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
    notes = [*baseline.notes]
    if unused:
        shown = ", ".join(unused[:3]) + (f" and {len(unused) - 3} more" if unused[3:] else "")
        notes.append(
            f"{len(unused)} {'entry' if len(unused) == 1 else 'entries'} of the baseline without a "
            f"case in this run ({shown}); if they are to go, delete the file and write it anew"
        )
    if shard is not None:
        notes.append(f"all cases together not judged: part {shard}; python -m grb_check merge does")
        return BaselineEnd(baseline=baseline, unused=unused, notes=tuple(notes))
    together = tuple(baseline.together(rows, planned))
    return BaselineEnd(baseline=baseline, together=together, unused=unused, notes=tuple(notes))


def is_own_test(key: str) -> bool:
    """Whether an entry is of a test of the user's own, which not every run has."""
    return "::" in key and not is_node_id(key)


def _written(baseline: Baseline, rows: Sequence[Row], *, cut_short: bool) -> BaselineEnd:
    made = [row for row in rows if row.outcome is not None]
    if cut_short or not made:
        why = "the run ended before its end" if cut_short else "no case has figures"
        return BaselineEnd(baseline=baseline, notes=(f"{baseline.path} not written: {why}",))
    count = baseline.write(made)
    kept = len(set(baseline.entries) - {key_of(row.node_id, row.case) for row in made})
    text = f"{count} entries written to {baseline.path}" + (f", {kept} kept" if kept else "")
    return BaselineEnd(baseline=baseline, written=count, notes=(text,))
