"""The steps of tasks: check a model and a dataset, measure cases, or attack references.

A step is a generator that yields the result of one case at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from grb_check.cases.case import Case
from grb_check.cases.repeat_results import RepeatResult
from grb_check.user_code.sources import definition

if TYPE_CHECKING:
    from grb_check.runs.process import Process
from grb_check.runs.tasks import Task


@dataclass(frozen=True, kw_only=True)
class Checked:
    """Facts about a model and a dataset before any work.

    Attributes:
        fingerprint: of the dataset.
        definition: file and line of the factory; None if unknown.
        metric: what figures are of, and why, see `metric.why_metric`; empty for accuracy.
    """

    fingerprint: str
    definition: tuple[str, int] | None
    metric: str = ""


def check(process: Process, task: Task) -> Iterator[tuple[Case, Checked]]:
    """Check dataset, untrained model and pack, so that errors come before any work.

    The task has all cases of its model and dataset; `Checked` comes with the first of them.

    Raises:
        DataError, ModelError, UsageError: the data or the factory is at fault, or nothing can be
            proven of a model of which nothing else is asked.
    """
    subject, source = process.subject(task.on), task.on.source
    fingerprint = process.evaluator.check(subject, source)
    process.evaluator.check_pack(source, task.cases)
    process.evaluator.check_proofs(subject, source, task.cases)
    location = definition(subject.source)
    result = None if location is None else (str(location[0]), location[1])
    metric = process.evaluator.why_metric(source)
    yield task.cases[0], Checked(fingerprint=fingerprint, definition=result, metric=metric)


def measure(process: Process, task: Task) -> Iterator[tuple[Case, RepeatResult | Exception]]:
    """Measure each case, unless an interrupted run has."""
    subject = process.subject(task.on)
    for case in task.cases:
        one = partial(process.finished.repeat, subject, task.on.source, case, task.seed)
        yield case, _attempted(partial(one, repeats=task.repeats))


def references(process: Process, task: Task) -> Iterator[tuple[Case, RepeatResult | Exception]]:
    """Add the scores of the given kinds of references to the results that are given."""
    for case, (result, kinds) in task.given.items():
        of_result = partial(process.evaluator.references, task.on.source, case, result)
        yield case, _attempted(partial(of_result, kinds))


def _attempted(function: Callable[[], RepeatResult]) -> RepeatResult | Exception:
    """The result of a case, or the error that is its own."""
    try:
        return function()
    except Exception as error:
        return error
