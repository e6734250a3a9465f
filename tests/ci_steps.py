"""The shell steps of CI files, run here with the inputs as a runner would give them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).parents[1]
ACTION: Final = ROOT / "action.yml"
COMPONENT: Final = ROOT / "templates" / "robustness.yml"
_CONDITION: Final = re.compile(
    r"(always\(\))?(?: && )?(?:inputs\.([\w-]+) (==|!=) '([^']*)')?", re.ASCII
)
# pip would install packages; what it was called with is kept.
_PYTHON: Final = """#!/bin/sh
[ "$1 $2" != "-m pip" ] || { printf '%s\\n' "$@" > "$PIP_CALL"; exit 0; }
exec "$REAL_PYTHON" "$@"
"""


def action() -> dict[str, Any]:
    """Return the action of GitHub."""
    read: dict[str, Any] = yaml.safe_load(ACTION.read_text("utf-8"))
    return read


def component() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the inputs of the component of GitLab, and its jobs."""
    head, jobs = yaml.safe_load_all(COMPONENT.read_text("utf-8"))
    return head["spec"]["inputs"], jobs


def run_action(folder: Path, given: Mapping[str, str]) -> int:
    """Run the steps of the action in a directory; return the exit code of the first that failed."""
    inputs = {name: each["default"] for name, each in action()["inputs"].items()} | given
    code = 0
    for step in action()["runs"]["steps"]:
        if "run" not in step or not _applies(step.get("if", ""), inputs, failed=code != 0):
            continue
        own = {name: _filled(str(value), inputs) for name, value in step.get("env", {}).items()}
        place = folder / _filled(step.get("working-directory", "."), inputs)
        ended = _bash(step["run"], place, own, folder)
        code = code or ended
    return code


def run_component(folder: Path, given: Mapping[str, str]) -> int:
    """Run the job of the component in a directory; return the exit code of its script."""
    declared, jobs = component()
    inputs = {name: _text(each["default"]) for name, each in declared.items()} | given
    (job,) = jobs.values()
    own = {
        name: re.sub(r"\$\[\[ inputs\.([\w-]+) ]]", lambda found: inputs[found[1]], each["value"])
        for name, each in job["variables"].items()
    }
    code = _bash("\n".join(job["script"]), folder, own, folder)
    _bash("\n".join(job["after_script"]), folder, own, folder)
    return code


def pip_call(folder: Path) -> list[str]:
    """Return the arguments with which the steps called pip."""
    return (folder / "pip-call").read_text().splitlines()


def _bash(script: str, place: Path, own: Mapping[str, str], folder: Path) -> int:
    stub = folder / "stub" / "python"
    if not stub.exists():
        stub.parent.mkdir()
        stub.write_text(_PYTHON)
        stub.chmod(0o755)
    environment = {
        **os.environ,
        **own,
        "PATH": f"{stub.parent}{os.pathsep}{os.environ['PATH']}",
        "PIP_CALL": str(folder / "pip-call"),
        "REAL_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "GITHUB_ACTION_PATH": str(ROOT),
        "GITHUB_OUTPUT": str(folder / "output"),
    }
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(command, cwd=place, env=environment, check=False).returncode


def _applies(condition: str, inputs: Mapping[str, str], *, failed: bool) -> bool:
    found = _CONDITION.fullmatch(condition)
    assert found is not None, condition
    always, name, sign, value = found.groups()
    holds = name is None or (inputs[name] == value) == (sign == "==")
    return holds and (always is not None or not failed)


def _filled(text: str, inputs: Mapping[str, str]) -> str:
    return re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: inputs[found[1]], text)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
