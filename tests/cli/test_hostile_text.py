"""No text of a run record reaches the terminal as more than text."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mutants import new_digest
from record_factory import file_of, rich

from grb_check.__main__ import main
from grb_check.reports.record import RunRecord

HOSTILE = "\x1b[32mgreen\r\n=== 5 passed ===\n\x9b2J\u202e\x07"


def _texts(value: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Path, container and key of each text; places in a list have the same path."""
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        below = f"{path}/{key if isinstance(value, dict) else '*'}"
        if isinstance(value[key], str):
            yield below, value, key
        elif isinstance(value[key], (dict, list)):
            yield from _texts(value[key], below)


def _hostile_records() -> Iterator[str]:
    """Records with hostile text added in one field each."""
    original = json.loads(file_of(rich()))
    for path in dict.fromkeys(path for path, _, _ in _texts(original)):
        changed = copy.deepcopy(original)
        container, key = next(
            (holder, key) for found_path, holder, key in _texts(changed) if found_path == path
        )
        container[key] += HOSTILE
        if (digest := new_digest(changed, RunRecord)) is not None:
            yield json.dumps(changed | {"digest": digest})


@pytest.mark.slow
def test_commands_on_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`report` and `merge` show or refuse it on lines of their own making."""
    path = tmp_path / "run.json"
    shown = 0
    for text in _hostile_records():
        path.write_text(text)
        for command in ("report", "merge"):
            main([command, str(path)])
            output = "".join(capsys.readouterr())
            assert not any(character in output for character in "\x1b\r\x9b\u202e\x07")
            if command != "report":  # Markdown has the lines of messages in blocks of code
                assert "=== 5 passed ===" not in output.splitlines()
            shown += "5 passed" in output
    assert shown > 20
