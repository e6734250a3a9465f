"""Start the workers that settings ask for, and say what their tasks have in common."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import uuid4

from grb_check.attacks.registry import Pair
from grb_check.cases.attack_registry import AttackRegistry
from grb_check.datasets.formats.own_data import OWN_DATA
from grb_check.execution.cores import cores
from grb_check.execution.executors import Workers, open_workers
from grb_check.execution.gpus import SHARED_OUT, VISIBLE, visible_gpus
from grb_check.execution.processes import Processes
from grb_check.execution.tasks import Setup
from grb_check.settings.settings import Settings
from grb_check.store.packs import PackPlace
from grb_check.user_code.sources import sources_digest


def targets(settings: Settings, registry: AttackRegistry) -> list[str]:
    """Return the import paths of all that is the user's: models, attacks and datasets."""
    registered = {name: path for name, path, _ in registry.registered}
    attacks = [registered.get(name, name) for name in registry.named]
    functions = [each.spec for each in settings.datasets if each.format is OWN_DATA]
    found = [*(each.target for each in settings.models), *attacks, *functions]
    return [each for each in dict.fromkeys(found) if ":" in each]


def workers_for(
    settings: Settings, registry: AttackRegistry, folders: Sequence[str], tasks: int
) -> Workers:
    """Start the workers that settings ask for.

    Args:
        settings: with `jobs` or `executor`.
        registry: of the attacks.
        folders: to search for users' modules.
        tasks: most that the run can have.

    Raises:
        UsageError: see `open_workers`.
    """
    if settings.executor:
        jobs = settings.jobs or None
        return open_workers(
            settings.executor, models=targets(settings, registry), folders=folders, jobs=jobs
        )
    gpus = visible_gpus() if settings.device in SHARED_OUT else []
    wanted = settings.jobs or min(len(gpus) or cores(), tasks)
    environments = [{VISIBLE: each} for each in gpus]
    # Importing torch takes seconds, which all processes spend at the same time.
    return Processes(max(1, wanted), environments, module="grb_check.evaluation.evaluator")


def setup_for(
    settings: Settings, registry: AttackRegistry, selected: Sequence[Pair], folders: Sequence[str]
) -> Setup:
    """Return what all tasks of a run have in common.

    Args:
        settings: of the run.
        registry: of its attacks.
        selected: attacks as the user selected them, without those that node ids add.
        folders: to search for users' modules.
    """
    return Setup(
        store=settings.store,
        device=settings.device,
        attacks=registry.named,
        registered=registry.registered,
        selected=tuple(selected),
        folders=tuple(folders),
        resume=settings.resume,
        sources=tuple((each, sources_digest(each)) for each in targets(settings, registry)),
        run=uuid4().hex,
        pack=None if settings.pack is None else PackPlace.of(settings.pack),
    )
