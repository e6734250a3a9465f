"""A plugin of the run at the base: it ends with the run that started it, and says what it is about.

That is a file of JSON: whether the model is missing there, and which files of the working tree were
imported all the same.
"""

from __future__ import annotations

import importlib
import json
import os
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from grb_check.runs.workers.processes import end_with
from grb_check.session.base import VARIABLE
from grb_check.user_code.revisions import not_of


def pytest_configure() -> None:
    about = _about()
    threading.Thread(target=end_with, args=(about["parent"],), daemon=True).start()
    if any(map(_is_missing, about["targets"])):
        _answer(missing=True)
        pytest.exit("the model is not at this revision", returncode=int(pytest.ExitCode.OK))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    tests = _about()["tests"]
    if tests:
        left_out = [item for item in items if item.nodeid not in tests]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item.nodeid in tests]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed and "verdict" not in getattr(report, "grb", {}):
        _answer(failed=f"{report.nodeid}: {report.longreprtext}")


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _answer(failed=f"{report.nodeid}: {report.longreprtext}")


def pytest_unconfigure() -> None:
    about = _about()
    foreign = not_of(Path(about["copy"]), Path(about["top"]))
    if foreign:
        _answer(foreign=foreign)


def _about() -> dict[str, Any]:
    result: dict[str, Any] = json.loads(os.environ[VARIABLE])
    return result


def _answer(**values: object) -> None:
    """Add what the run that started this one has to know."""
    path = Path(_about()["answer"])
    before = json.loads(path.read_text("utf-8")) if path.exists() else {}
    path.write_text(json.dumps({**values, **before}), encoding="utf-8")  # the first error stays


def _is_missing(target: str) -> bool:
    """Whether there is no such module, or nothing of that name in it."""
    name, _, attribute = target.partition(":")
    try:
        if find_spec(name) is None:
            return True
        result: object = importlib.import_module(name)
    except ModuleNotFoundError as error:
        return error.name is not None and f"{name}.".startswith(f"{error.name}.")
    except Exception:  # the run tells
        return False
    for part in attribute.split("."):
        if not hasattr(result, part):
            return True
        result = getattr(result, part)
    return False
