"""Steps of tasks at another revision: whether a model is there, and which files were imported."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from grb_check.cases.case import Case
from grb_check.settings.model_specs import ModelSpec
from grb_check.user_code.factories import quiet_imports
from grb_check.user_code.revisions import not_of

if TYPE_CHECKING:
    from grb_check.runs.process import Process
    from grb_check.runs.tasks import Task


def absent(_process: Process, task: Task) -> Iterator[tuple[Case, bool]]:
    """Whether there is no such module at the revision, or nothing of that name in it."""
    model = task.on.model
    assert isinstance(model, ModelSpec)
    yield task.cases[0], _is_absent(model.target)


def foreign(_process: Process, task: Task) -> Iterator[tuple[Case, list[str]]]:
    """Files of imported modules that are not those of the revision and should be.

    The task is given the worktree and the repository, by its first case.
    """
    folder, top = task.given[task.cases[0]]
    yield task.cases[0], not_of(Path(folder), Path(top))


def _is_absent(target: str) -> bool:
    name, _, attribute = target.partition(":")
    try:
        if find_spec(name) is None:
            return True
        with quiet_imports():
            result: object = importlib.import_module(name)
    except ModuleNotFoundError as error:
        return error.name is not None and f"{name}.".startswith(f"{error.name}.")
    except Exception:  # the check of the model says what is wrong
        return False
    for part in attribute.split("."):
        if not hasattr(result, part):
            return True
        result = getattr(result, part)
    return False
