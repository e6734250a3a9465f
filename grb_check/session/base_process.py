"""A plugin of the run at the base: it ends with the run that started it, and says what it is about.

That is a file of JSON: whether the model is missing there, and which files of the working tree were
imported all the same.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from grb_check.execution.processes import end_with
from grb_check.session.base import VARIABLE
from grb_check.user_code.revisions import is_own


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


def pytest_unconfigure() -> None:
    files = [str(getattr(module, "__file__", None) or "") for module in [*sys.modules.values()]]
    own = Path(__file__).parents[1]
    users = [each for each in files if each and not Path(each).is_relative_to(own)]
    top = Path(_about()["top"])
    foreign = [each for each in users if is_own(top, Path(each))]
    if foreign:
        _answer(foreign=sorted(foreign))


def _about() -> dict[str, Any]:
    result: dict[str, Any] = json.loads(os.environ[VARIABLE])
    return result


def _answer(**values: object) -> None:
    Path(_about()["answer"]).write_text(json.dumps(values), encoding="utf-8")


def _is_missing(target: str) -> bool:
    """Whether there is no such module, or nothing of that name in it."""
    name, _, attribute = target.partition(":")
    try:
        if find_spec(name) is None:
            return True
        result: object = importlib.import_module(name)
    except ModuleNotFoundError as error:
        return error.name is not None and name.startswith(error.name)
    except Exception:  # the run tells
        return False
    for each in attribute.split("."):
        if not hasattr(result, each):
            return True
        result = getattr(result, each)
    return False
