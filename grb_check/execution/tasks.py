"""Tasks: plain data that names everything a process needs to measure some cases of one repeat.

A task is (model, dataset, repeat), for all cases or some of them. It trains the victim of that
repeat once and measures the cases, so that no victim has to be handed from one process to another.
Paths are absolute; packages and the user's model have to be importable where the task runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from grb_check.attacks.registry import Pair
from grb_check.cases.case import Case
from grb_check.datasets import Source
from grb_check.datasets.places import Places
from grb_check.settings.model_specs import ModelSpec
from grb_check.store.packs import PackPlace
from grb_check.store.place import StorePlace


@dataclass(frozen=True, kw_only=True)
class Setup:
    """Settings that all tasks of a run have in common.

    Attributes:
        store: of perturbations and of finished measurements; None for none.
        device: as for `--grb-device`.
        attacks: users' attacks by the names that they were given.
        registered: name, import path and plugin of the attacks that plugins registered.
        selected: attacks of the run as the user selected them, for `worst`.
        folders: to search for users' modules, before those of the process.
        resume: whether measurements of an interrupted run are taken from the store.
        sources: import path and `sources_digest` of all that is the user's.
        run: different for each run, so that a process keeps nothing from one to the next.
        pack: that black-box perturbations are taken from; None to make them.
    """

    store: StorePlace | None
    device: str
    attacks: tuple[str, ...] = ()
    registered: tuple[tuple[str, str, str], ...] = ()
    selected: tuple[Pair, ...] = ()
    folders: tuple[str, ...] = ()
    resume: bool = False
    sources: tuple[tuple[str, str], ...] = ()
    run: str = ""
    pack: PackPlace | None = None


@dataclass(frozen=True, kw_only=True)
class ModelOnDataset:
    """A model on a dataset.

    Attributes:
        model: named by its import path.
        name: of the model in reports.
        dataset: text that `datasets.find` understands in any working directory.
        places: where to look for it.
    """

    model: ModelSpec
    name: str
    dataset: str
    places: Places


def model_on_dataset(model: ModelSpec, source: Source) -> ModelOnDataset:
    """Return a model on a dataset that was found."""
    return ModelOnDataset(model=model, name=model.label, dataset=source.asked, places=source.places)


@dataclass(frozen=True, kw_only=True)
class Task:
    """Cases of one repeat of a model on a dataset.

    Attributes:
        setup: of the run.
        subject: the model on the dataset.
        cases: of that model and dataset.
        seed: of the repeat, from 0.
        repeats: number of repeats of the run, for the progress.
    """

    setup: Setup
    subject: ModelOnDataset
    cases: tuple[Case, ...]
    seed: int
    repeats: int
