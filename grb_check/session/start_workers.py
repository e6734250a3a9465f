"""The workers that the options ask for, and what their tasks have in common."""

from __future__ import annotations

from grb_check.execution.cores import cores
from grb_check.execution.executors import Workers, open_workers
from grb_check.execution.processes import Processes
from grb_check.execution.tasks import Setup
from grb_check.session.gpus import SHARED_OUT, VISIBLE, visible_gpus
from grb_check.session.planning import SessionPlan
from grb_check.settings.settings import Settings


def workers_for(plan: SessionPlan) -> Workers:
    """Start the workers that the settings ask for.

    Raises:
        UsageError: see `open_workers`.
    """
    settings = plan.settings
    if settings.executor:
        models = [each.target for each in settings.models]
        jobs = settings.jobs or None
        return open_workers(settings.executor, models=models, folders=plan.folders, jobs=jobs)
    gpus = visible_gpus() if settings.device in SHARED_OUT else []
    return Processes(_count(settings, plan, gpus), [{VISIBLE: each} for each in gpus])


def _count(settings: Settings, plan: SessionPlan, gpus: list[str]) -> int:
    if settings.jobs:
        return settings.jobs
    return max(1, min(len(gpus) or cores(), settings.repeats * len(plan.cases.own)))


def setup_for(plan: SessionPlan) -> Setup:
    """Return what all tasks of a session have in common."""
    settings, registry = plan.settings, plan.registry
    return Setup(
        store=settings.store,
        device=settings.device,
        attacks=registry.named,
        registered=registry.registered,
        selected=plan.selected,
        folders=plan.folders,
        resume=settings.resume,
    )
