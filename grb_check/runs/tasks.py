"""Tasks: plain data that names everything a process needs to measure some cases of one repeat.

A task is (model, dataset, repeat), for all cases or some of them. It trains the victim of that
repeat once and measures the cases, so that no victim has to be handed from one process to another.
Paths are absolute; packages and the user's model have to be importable where the task runs.
Loads no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from grb_check import datasets
from grb_check.cases.case import Case
from grb_check.datasets import Source
from grb_check.datasets.source import Places
from grb_check.settings.model_specs import ModelSpec
from grb_check.settings.settings import RunSettings

if TYPE_CHECKING:
    from grb_check.runs.process import Process
    from grb_check.victims.subject import Subject

Victim: TypeAlias = tuple[str, str, int]  # model, dataset, seed of the repeat
# Yields for each case, or some, what was found, or the error that is this case's own. What it
# raises is an error of the whole task.
Step: TypeAlias = "Callable[[Process, Task], Iterator[tuple[Case, Any]]]"


@dataclass(frozen=True)
class ModelOnDataset:
    """A model on a dataset.

    Attributes:
        model: named by its import path; or one of this process, which cannot leave it.
        source: of the dataset. A worker finds it again.
    """

    model: ModelSpec | Subject
    source: Source

    def __reduce__(self) -> tuple[Callable[..., ModelOnDataset], tuple[Any, ...]]:
        return _found_again, (self.model, self.source.given, self.source.places)


def _found_again(model: ModelSpec, dataset: str, places: Places) -> ModelOnDataset:
    return ModelOnDataset(model, datasets.find(dataset, places))


@dataclass(frozen=True, kw_only=True)
class Task:
    """Cases of one repeat of a model on a dataset.

    Attributes:
        step: what is done for its cases, one of `runs.steps`.
        settings: of the run.
        on: the model on the dataset.
        cases: of that model and dataset.
        seed: of the repeat, from 0.
        repeats: number of repeats of the run, for the progress.
        given: for each case what the step needs besides.
        fingerprint: of the dataset; empty for any.
    """

    step: Step
    settings: RunSettings
    on: ModelOnDataset
    cases: tuple[Case, ...]
    seed: int
    repeats: int
    given: Mapping[Case, Any] = field(default_factory=dict)
    fingerprint: str = ""

    @property
    def victim(self) -> Victim:
        """The victim that it needs; a process keeps those that it has trained."""
        return self.cases[0].model, self.cases[0].dataset, self.seed


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The results of a task, and where it ran.

    Attributes:
        values: what its step has yielded.
        device: that was used.
        environment: everything else that figures depend on, see `measured_with`.
        warnings: class, text, file and line of each warning in a worker.
        stored: files of perturbations and results that a worker of an executor has added to its
            store, by key.
    """

    values: Mapping[Case, Any]
    device: str
    environment: Mapping[str, str]
    warnings: tuple[tuple[str, str, str, int], ...] = ()
    stored: Mapping[str, bytes] = field(default_factory=dict)
