"""Show how many repeats detect a loss of accuracy, and what they cost, by the figures of a run."""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from grb_check.cases.case import is_node_id
from grb_check.cases.outcomes import Outcome
from grb_check.cli.console import OK, say
from grb_check.errors import UsageError, count
from grb_check.files.text import fit_line
from grb_check.gate.baselines.baseline import ALPHA, JOINT_SHARE, LOSS_MARGIN, REPEATS
from grb_check.gate.baselines.compare import CASES_SHARE, case_weights, collapsed
from grb_check.gate.baselines.mean_test import MAX_REPEATS, repeats_for
from grb_check.reports.plain import columns
from grb_check.reports.record import RunRecord
from grb_check.reports.record_file import read
from grb_check.settings.judging import read_points

ALL_CASES = "all cases together"


@dataclass(frozen=True, kw_only=True)
class Needed:
    """Repeats that detect a loss with 80 % probability.

    Attributes:
        name: id of the case, or `ALL_CASES`.
        deviation: standard deviation of the loss between two trainings, in points.
        repeats: on both sides; None if it is more than `mean_test.MAX_REPEATS`.
    """

    name: str
    deviation: float
    repeats: int | None


def trained(outcomes: Sequence[Outcome]) -> bool:
    """Whether every repeat has a training of its own, so that more repeats show more."""
    repeats = outcomes[0].repeats
    known = [repeat.weights for repeat in repeats if repeat.weights]
    return not repeats[0].pretrained and len(set(known)) == len(known)


def needed(
    outcomes: Sequence[Outcome], loss: float, margin: float, groups: int, cases: int
) -> list[Needed]:
    """Return the repeats for a loss in all cases of a model and dataset, then in each one alone.

    The deviation is that of two independent runs, sqrt(2) times that of one. It is a little too
    large if both have the same perturbations. A single case is judged by its own verdict; the
    test at the end of a run usually needs fewer repeats.

    Args:
        outcomes: of the cases of one model and dataset, with three or more repeats each.
        loss: true loss of attacked accuracy, in points.
        margin: that is tolerated, in points, less than `loss`.
        groups: number of models and datasets of the run, which share the error rate.
        cases: number of cases of the run, likewise.
    """
    n = min(len(outcome.repeats) for outcome in outcomes)
    by_case = [[100.0 * r.victim.attacked for r in outcome.repeats[:n]] for outcome in outcomes]
    steps = [100.0 / outcome.targets for outcome in outcomes]
    means = [statistics.fmean(each) for each in zip(*by_case, strict=True)]
    gone = collapsed(means, max(steps) / len(steps))
    sides = [
        [math.sqrt(2.0) * value for repeat, value in enumerate(each) if repeat not in gone]
        for each in by_case
    ]
    weights = case_weights(sides)
    joint = [
        sum(value * weight for value, weight in zip(each, weights, strict=True)) / sum(weights)
        for each in zip(*sides, strict=True)
    ]
    together = 1.0 - ALPHA * JOINT_SHARE / groups * (1.0 - CASES_SHARE)
    alone = 1.0 - ALPHA * (1.0 - JOINT_SHARE) / cases
    result = [_needed(ALL_CASES, joint, min(steps) / len(steps), loss - margin, together)]
    return result + [
        _needed(each.case.id, side, step, loss - margin, alone)
        for each, side, step in zip(outcomes, sides, steps, strict=True)
    ]


def _needed(name: str, side: Sequence[float], step: float, gap: float, level: float) -> Needed:
    deviation = max(statistics.stdev(side), step / math.sqrt(6.0))
    return Needed(name=name, deviation=deviation, repeats=repeats_for(gap, deviation, level))


LEAST: Final = 3  # repeats that show a spread
NOT_TRAINED: Final = (
    "nothing is trained, or several repeats have the same weights: more repeats show no more about "
    "other trainings"
)
HEAD: Final = ("", "spread", "repeats", "seconds")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("run_record", metavar="RUN.json", help="file that --grb-json wrote")
    parser.add_argument(
        "--loss",
        metavar="POINTS",
        default="3",
        help="true loss of attacked accuracy, in percentage points (default: 3)",
    )
    parser.add_argument(
        "--margin",
        metavar="POINTS",
        help="tolerated loss, as for --grb-margin (default: that of the run, or 2)",
    )


def run(options: argparse.Namespace) -> int:
    """Write the numbers of repeats."""
    record = read(Path(options.run_record))
    margin = record.baseline.margin if record.baseline is not None else LOSS_MARGIN
    if options.margin is not None:
        margin = read_points(options.margin, "--margin")
    say(*_lines(record, read_points(options.loss, "--loss", above=margin), margin))
    return OK


def _lines(record: RunRecord, loss: float, margin: float) -> list[str]:
    """A table for each model and dataset.

    Raises:
        UsageError: the record has no case with enough repeats.
    """
    groups: dict[tuple[str, str], list[Outcome]] = {}
    for row in record.cases:
        if row.outcome is not None and is_node_id(row.node_id):
            groups.setdefault((row.case.model, row.case.dataset), []).append(row.outcome)
    fewest = min((len(o.repeats) for group in groups.values() for o in group), default=0)
    if fewest < LEAST:
        what = f"a case of {count(fewest, 'repeat')}" if groups else "no built-in case with figures"
        raise UsageError(
            f"the run record has {what}; the spread of trainings needs at least {LEAST}: make it "
            f"with --grb-repeats={REPEATS}"
        )
    lines = [
        f"Repeats on both sides that detect a loss of {loss:g} points beyond a margin of "
        f"{margin:g} with 80 % probability, and the seconds of such a run:"
    ]
    for (model, dataset), outcomes in groups.items():
        lines += ["", f"{model or outcomes[0].model} on {dataset}, {_made(outcomes)}"]
        if not trained(outcomes):
            lines.append(NOT_TRAINED)
            continue
        result = needed(outcomes, loss, margin, len(groups), sum(map(len, groups.values())))
        lines += _table(result, outcomes)
    return lines


def _made(outcomes: Sequence[Outcome]) -> str:
    repeats = sorted({len(outcome.repeats) for outcome in outcomes})
    return f"measured with {' and '.join(map(str, repeats))} repeats"


def _table(found: Sequence[Needed], outcomes: Sequence[Outcome]) -> list[str]:
    """A line for all cases together, and one for each case."""
    seconds = sum(outcome.seconds / len(outcome.repeats) for outcome in outcomes)
    rows = [
        (
            fit_line(each.name),
            f"{each.deviation:.1f}",
            f"more than {MAX_REPEATS:,}" if each.repeats is None else str(each.repeats),
            "-" if each.repeats is None else f"{each.repeats * seconds:.0f}",
        )
        for each in found
    ]
    return columns([HEAD, *rows], right=(1, 2, 3))
