"""The choice of what runs tasks: this process, or workers that settings ask for."""

from __future__ import annotations

from functools import partial

from grb_check.runs.workers.calls import Calls
from grb_check.runs.workers.given_executor import start_executor
from grb_check.runs.workers.in_process import Inline
from grb_check.runs.workers.processes import WorkerPlace, start_processes
from grb_check.runs.workers.resources import SHARED_OUT, cores, visible_gpus
from grb_check.runs.workers.retrying import Retrying
from grb_check.settings.settings import RunSettings


def calls_for(settings: RunSettings, tasks: int, place: WorkerPlace | None = None) -> Calls:
    """Return what runs the tasks of a run.

    Args:
        settings: of the run.
        tasks: most that the run can have.
        place: of other files, which this process must not import.
    """
    jobs, executor = settings.execution.jobs, settings.execution.executor
    if executor and place is None:
        timeout = settings.execution.timeout
        timed = timeout is not None
        return Retrying(partial(start_executor, executor, jobs or None, timed=timed), timeout)
    if jobs is None and place is None:
        return Inline(settings)
    gpus = visible_gpus() if settings.device in SHARED_OUT else []
    workers = 1 if jobs is None else jobs or min(len(gpus) or cores(), tasks)
    return Retrying(
        partial(start_processes, max(1, workers), gpus, place), settings.execution.timeout
    )
