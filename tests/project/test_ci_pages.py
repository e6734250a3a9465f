"""The CI files that pages show and that the project ships: what they name exists."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml
from ci_steps import ACTION, ROOT, action

from grb_check.__main__ import COMMANDS
from grb_check.settings.options import OPTIONS, UPDATE_FLAG
from grb_check.settings.pytest_options import LIST_FLAG

PAGES = [
    ROOT / "docs" / "how-to" / f"{name}.md" for name in ("ci", "history", "pull-request-comments")
]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FILES = [ACTION, *WORKFLOWS, *PAGES]
FLAGS = {*(option.flag for option in OPTIONS), "--grb-only", UPDATE_FLAG, LIST_FLAG}
NAMES = {module.__name__.rpartition(".")[2] for module in COMMANDS}
BLOCK = re.compile(r"^( *)```yaml\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
BLOCKS = [
    pytest.param(dedent(text), id=f"{page.stem}-{number}")
    for page in PAGES
    for number, (_, text) in enumerate(BLOCK.findall(page.read_text("utf-8")))
]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_options_and_commands_exist(path: Path) -> None:
    """Every word that looks like one."""
    text = path.read_text("utf-8")
    assert set(re.findall(r"--grb-[a-z-]+", text)) - FLAGS == set()
    assert set(re.findall(r"python -m grb_check ([a-z]+)", text)) - NAMES == set()


@pytest.mark.parametrize("text", BLOCKS)
def test_inputs_of_a_block_exist(text: str) -> None:
    """Those of the action."""
    for step in _walk(yaml.safe_load(text)):
        if "OWNER/grb_check" in str(step.get("uses", "")):
            assert set(step["with"]) <= set(action()["inputs"])


@pytest.mark.parametrize("text", BLOCKS)
def test_whole_blocks_follow_the_schemas(tmp_path: Path, text: str) -> None:
    """Workflows and pipelines; a list of steps is a part of one."""
    parsed = yaml.safe_load(text)
    if isinstance(parsed, list):
        parsed = {"on": "push", "jobs": {"job": {"runs-on": "ubuntu-latest", "steps": parsed}}}
        text = yaml.safe_dump(parsed)
    schema = "github-workflows" if "jobs" in parsed else "gitlab-ci"
    (tmp_path / "block.yml").write_text(text)
    command = ["-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", "block.yml"]
    done = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _walk(value: Any) -> Iterator[dict[str, Any]]:
    """All mappings in a document."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _walk(item)
