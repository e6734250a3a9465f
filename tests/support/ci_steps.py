"""The shell steps of CI files, run here with the inputs as a runner would give them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).parents[2]
ACTION: Final = ROOT / "action.yml"
_CONDITION: Final = re.compile(r"inputs\.([\w-]+) (==|!=) '([^']*)'", re.ASCII)
ONLY_RECORD: Final = "ONLY_RECORD"  # set in the environment, no Python runs
CONTEXT: Final = {
    "steps.names.outputs.artifact": "robustness",
    "github.event.pull_request.number": "7",
}
# What Python is called with is kept; pip would install packages.
_PYTHON: Final = f"""#!/bin/bash
printf '%q ' "$@" >> "$CALLS"
echo >> "$CALLS"
if [ -n "${ONLY_RECORD}" ] || [ "$1 $2" = "-m pip" ]; then
    [ "$2" != pytest ] || sleep "${{SLEEP:-0}}"
    exit 0
fi
exec "$REAL_PYTHON" "$@"
"""


def action() -> dict[str, Any]:
    """Return the action of GitHub."""
    read: dict[str, Any] = yaml.safe_load(ACTION.read_text("utf-8"))
    return read


def run_action(folder: Path, given: Mapping[str, str]) -> int:
    """Run the steps of the action in a directory; return the exit code of the first that failed."""
    inputs = {name: spec["default"] for name, spec in action()["inputs"].items()} | given
    code = 0
    for step in action()["runs"]["steps"]:
        if "run" not in step or not applies(step, inputs, failed=code != 0):
            continue
        environment = {
            name: _filled(str(value), inputs) for name, value in step.get("env", {}).items()
        }
        directory = folder / _filled(step.get("working-directory", "."), inputs)
        ended = _bash(step["run"], directory, environment, folder)
        code = code or ended
    return code


def calls(folder: Path, module: str) -> list[list[str]]:
    """Return the arguments of each call of `python -m MODULE` in the steps."""
    rows = map(shlex.split, (folder / "calls").read_text().splitlines())
    return [row[2:] for row in rows if row[:2] == ["-m", module]]


def applies(step: Mapping[str, Any], inputs: Mapping[str, str], *, failed: bool) -> bool:
    """Whether a step of the action runs, after others that passed or failed."""
    terms = step.get("if", "").split(" && ") if "if" in step else []
    whatever = {"always()", "!cancelled()"}
    always = bool(whatever.intersection(terms))
    for term in terms:
        if term not in whatever:
            match = _CONDITION.fullmatch(term)
            assert match is not None, term
            name, sign, value = match.groups()
            if (inputs[name] == value) != (sign == "=="):
                return False
    return always or not failed


def _bash(script: str, directory: Path, env: Mapping[str, str], folder: Path) -> int:
    stub = folder / "stub" / "python"
    if not stub.exists():
        stub.parent.mkdir(exist_ok=True)
        stub.write_text(_PYTHON)
        stub.chmod(0o755)
    environment = {
        **os.environ,
        **env,
        "PATH": f"{stub.parent}{os.pathsep}{os.environ['PATH']}",
        "CALLS": str(folder / "calls"),
        "REAL_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "GITHUB_ACTION_PATH": str(ROOT),
        "GITHUB_OUTPUT": str(folder / "output"),
    }
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(command, cwd=directory, env=environment, check=False).returncode


def _filled(text: str, inputs: Mapping[str, str]) -> str:
    known = {f"inputs.{name}": value for name, value in inputs.items()} | CONTEXT
    return re.sub(r"\$\{\{ ([\w.-]+) \}\}", lambda match: known[match[1]], text)
