"""Versions and sources that a worker must share with the process that submits to it.

Loads no torch.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from grb_check.errors import UsageError, count, one_line
from grb_check.files.control_characters import fit_line
from grb_check.files.versions import versions
from grb_check.user_code.factories import import_target
from grb_check.user_code.sources import imported_digest, sources_digest

PROCESS: Final = "process"  # host and number: where it is the same, nothing can differ
_DIGITS: Final = 12  # of a digest, as shown
_NAMED: Final = 3  # workers that a message names

Environment = Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Needs:
    """Requirements of a run on its workers.

    Attributes:
        models: import paths of the users' models, attacks and datasets, `pkg.module:attr`.
        folders: to search for users' modules, before those of the process.
        packages: whose versions are compared besides those that all figures depend on.
    """

    models: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()


def environment(needs: Needs) -> dict[str, str]:
    """Return versions, and digests of the models' sources, in this process; imports no model."""
    return {
        PROCESS: f"{platform.node()} {os.getpid()}",
        **versions(),
        **{name: _version(name) for name in ("scipy", *needs.packages)},
        **{f"source of {each}": _shown(sources_digest(each)) for each in needs.models},
    }


def environment_of_worker(needs: Needs) -> dict[str, str]:
    """Return the same in a worker, which imports the models.

    The digest is that of the source which the worker has imported: one that serves several runs
    keeps the modules of the first. A model that cannot be imported has its error instead.
    """
    sys.path[:0] = [each for each in needs.folders if each not in sys.path]
    sources = {f"source of {each}": _imported(each) for each in needs.models}
    return environment(needs) | sources


def compare(label: str, here: Environment, workers: Mapping[str, Environment]) -> None:
    """Check that workers have the versions and sources of this process.

    Args:
        label: option and value, for the message.
        here: see `environment`.
        workers: environment of each worker by its name.

    Raises:
        UsageError: some differ; it names both sides.
    """
    wrong: dict[tuple[str, str], list[str]] = {}
    for name, there in workers.items():
        if there[PROCESS] != here[PROCESS]:
            for key in here.keys() - {PROCESS}:
                if there.get(key) != here[key]:
                    wrong.setdefault((key, there.get(key, "missing")), []).append(fit_line(name))
    if wrong:
        differences = [
            f"{fit_line(key)} is {fit_line(value)} at {_listed(names)} and {here[key]} here"
            for (key, value), names in sorted(wrong.items())
        ]
        raise UsageError(
            f"{label}: workers differ from the process that runs pytest: "
            f"{'; '.join(differences)}; install the same versions on both sides, make the same "
            f"files of the model importable there (PYTHONPATH), and restart the workers"
        )


def run_checked(
    label: str,
    here: tuple[tuple[str, str], ...],
    needs: Needs,
    function: Callable[..., Any],
    *args: Any,
) -> Any:
    """Return `function(*args)`, in a worker that may have joined after the start of the run.

    Args:
        label: see `compare`.
        here: items of the environment of the submitting process.
        needs: of the run.

    Raises:
        UsageError: see `compare`; `function` is not called.
    """
    _check_once(label, here, needs)
    return function(*args)


@cache
def _check_once(label: str, here: tuple[tuple[str, str], ...], needs: Needs) -> None:
    own = environment_of_worker(needs)
    compare(label, dict(here), {own[PROCESS]: own})


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{count(len(names), 'worker')} ({', '.join(names[:_NAMED])}{more})"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"


def _imported(model: str) -> str:
    try:
        import_target(model, "model", "what the run names in it")
    except UsageError as error:
        return f"not to be imported ({one_line(error)})"
    return _shown(imported_digest(model))


def _shown(digest: str) -> str:
    return digest[:_DIGITS] or "without a file"
