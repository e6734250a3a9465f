"""Durations of the cases of an earlier run, by which parts are balanced. Loads no torch."""

from __future__ import annotations

from pathlib import Path

from grb_check.errors import UsageError
from grb_check.reports.record import read
from grb_check.settings.options import COMMAND_LINE
from grb_check.settings.settings import Settings


def recorded(settings: Settings) -> tuple[dict[str, float], Path | None]:
    """Return seconds by case id, without training, and the file that they are from.

    Every part of a run trains its own victims, so that the duration of a training in another run
    says nothing about a part.

    Returns:
        Nothing if the run is not cut, or no file has durations.

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
    seconds = {}
    for row in read(path).cases:
        if row.outcome is not None:
            spent = sum(each.seconds - each.training_seconds for each in row.outcome.repeats)
            seconds[row.id] = max(spent, 0.0)
    return seconds
