"""Who runs the tasks that settings ask for, and what these tasks have in common."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from grb_check.attacks.registry import Pair
from grb_check.cases.attack_registry import AttackRegistry
from grb_check.datasets.formats.user_data import USER_DATA
from grb_check.runs.tasks import Setup
from grb_check.runs.workers.calls import Calls
from grb_check.runs.workers.in_process import Inline
from grb_check.runs.workers.processes import start_processes
from grb_check.runs.workers.resources import SHARED_OUT, cores, visible_gpus
from grb_check.runs.workers.retrying import Retrying
from grb_check.settings.settings import Settings
from grb_check.store.pack import PackPlace
from grb_check.user_code.sources import sources_digest


def targets(settings: Settings, registry: AttackRegistry) -> list[str]:
    """Return the import paths of all that is the user's: models, attacks and datasets."""
    registered = {name: path for name, path, _ in registry.registered}
    attacks = [registered.get(name, name) for name in registry.named]
    functions = [dataset.spec for dataset in settings.datasets if dataset.format is USER_DATA]
    result = [*(model.target for model in settings.models), *attacks, *functions]
    return [target for target in dict.fromkeys(result) if ":" in target]


def calls_for(settings: Settings, setup: Setup, tasks: int) -> Calls:
    """Return what runs the tasks of a run: this process, or others that settings ask for.

    Args:
        settings: of the run.
        setup: of its tasks.
        tasks: most that the run can have.
    """
    if settings.jobs is None:
        return Inline(setup)
    gpus = visible_gpus() if settings.device in SHARED_OUT else []
    workers = settings.jobs or min(len(gpus) or cores(), tasks)
    return Retrying(partial(start_processes, max(1, workers), gpus), settings.timeout)


def setup_for(settings: Settings, registry: AttackRegistry, selected: Sequence[Pair]) -> Setup:
    """Return what all tasks of a run have in common.

    Args:
        settings: of the run.
        registry: of its attacks.
        selected: attacks as the user selected them, without those that node ids add.
    """
    return Setup(
        store=settings.store,
        device=settings.device,
        attacks=registry.named,
        registered=registry.registered,
        selected=tuple(selected),
        resume=settings.resume,
        sources=tuple((target, sources_digest(target)) for target in targets(settings, registry)),
        pack=None if settings.pack is None else PackPlace.of(settings.pack),
    )
