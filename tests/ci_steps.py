"""The shell steps of CI files, run here with the inputs as a runner would give them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).parents[1]
ACTION: Final = ROOT / "action.yml"
COMPONENT: Final = ROOT / "templates" / "robustness.yml"
_CONDITION: Final = re.compile(r"inputs\.([\w-]+) (==|!=) '([^']*)'", re.ASCII)
_RULE: Final = re.compile(r'\$(\w+)(?: == "(\w+)")?', re.ASCII)
ONLY_RECORD: Final = "ONLY_RECORD"  # set in the environment, no Python runs
# What Python is called with is kept; pip would install packages.
_PYTHON: Final = f"""#!/bin/bash
printf '%q ' "$@" >> "$CALLS"
echo >> "$CALLS"
[ -z "${ONLY_RECORD}" ] && [ "$1 $2" != "-m pip" ] || exit 0
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
        if "run" not in step or not applies(step, inputs, failed=code != 0):
            continue
        own = {name: _filled(str(value), inputs) for name, value in step.get("env", {}).items()}
        place = folder / _filled(step.get("working-directory", "."), inputs)
        ended = _bash(step["run"], place, own, folder)
        code = code or ended
    return code


def run_component(
    folder: Path, given: Mapping[str, str], variables: Mapping[str, str] | None = None
) -> int:
    """Run the job of the component in a directory; return the exit code of its script.

    Args:
        folder: to run in.
        given: inputs.
        variables: of the project.
    """
    declared, jobs = component()
    inputs = {name: _text(each["default"]) for name, each in declared.items()} | given
    (job,) = jobs.values()
    own = {
        name: re.sub(r"\$\[\[ inputs\.([\w-]+) ]]", lambda found: inputs[found[1]], each["value"])
        for name, each in job["variables"].items()
    }
    known = variables or {}
    for name in (name for name, each in job["variables"].items() if each["expand"]):
        own[name] = re.sub(r"\$(\w+)", lambda found: known.get(found[1], ""), own[name])
    code = _bash("\n".join(job["script"]), folder, own, folder)
    assert _bash("\n".join(job["after_script"]), folder, own, folder) == 0
    return code


def is_in_pipeline(rules: Sequence[Mapping[str, str]], variables: Mapping[str, str]) -> bool:
    """Whether a job of GitLab with these rules is in a pipeline with these variables."""
    for rule in rules:
        holds = []
        for term in rule["if"].split(" && "):
            found = _RULE.fullmatch(term)
            assert found is not None, term
            value = variables.get(found[1], "")
            holds.append(bool(value) if found[2] is None else value == found[2])
        if all(holds):
            return rule.get("when") != "never"
    return False


def calls(folder: Path, module: str) -> list[list[str]]:
    """Return the arguments of each call of `python -m MODULE` in the steps."""
    rows = map(shlex.split, (folder / "calls").read_text().splitlines())
    return [row[2:] for row in rows if row[:2] == ["-m", module]]


def applies(step: Mapping[str, Any], inputs: Mapping[str, str], *, failed: bool) -> bool:
    """Whether a step of the action runs, after others that passed or failed."""
    terms = step.get("if", "").split(" && ") if "if" in step else []
    always = "always()" in terms
    for term in terms:
        if term != "always()":
            found = _CONDITION.fullmatch(term)
            assert found is not None, term
            name, sign, value = found.groups()
            if (inputs[name] == value) != (sign == "=="):
                return False
    return always or not failed


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
        "CALLS": str(folder / "calls"),
        "REAL_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "GITHUB_ACTION_PATH": str(ROOT),
        "GITHUB_OUTPUT": str(folder / "output"),
    }
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(command, cwd=place, env=environment, check=False).returncode


def _filled(text: str, inputs: Mapping[str, str]) -> str:
    return re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: inputs[found[1]], text)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
