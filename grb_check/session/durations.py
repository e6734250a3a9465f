"""How long the cases of an earlier run took. Imports neither torch nor numpy."""

from __future__ import annotations

from pathlib import Path

from grb_check.errors import UsageError
from grb_check.settings.options import COMMAND_LINE
from grb_check.settings.settings import Settings


def recorded(settings: Settings) -> tuple[dict[str, float], Path | None]:
    """Seconds by case id, without the victims' training, and the file that they are from.

    Every part of a run trains its own victims, so that what training took in another run says
    nothing about a part. Nothing where the run is not cut, or no file tells.

    Raises:
        UsageError: a file cannot be read, or is given though the run is not cut.
    """
    path, baseline = settings.durations, settings.baseline
    if settings.shard is None:
        if path is not None and settings.origins["grb_durations"] == COMMAND_LINE:
            raise UsageError(
                "--grb-durations balances the parts of a run and needs --grb-shard; add it, as "
                "--grb-shard=1/2, or leave both out"
            )
        return {}, None
    if path is not None:
        return _of_run(path), path
    if baseline is not None and baseline.entries:
        return {key: entry.seconds for key, entry in baseline.entries.items()}, baseline.path
    return {}, None


def _of_run(path: Path) -> dict[str, float]:
    from grb_check.reports.records import read, rows_of

    seconds = {}
    for row in rows_of(read(path)):
        if row.outcome is not None:
            spent = sum(each.seconds - each.training_seconds for each in row.outcome.repeats)
            seconds[row.case.id] = max(spent, 0.0)
    return seconds
