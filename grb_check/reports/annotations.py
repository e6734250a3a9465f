"""Annotations of GitHub Actions: one for each model that failed, at the definition of its factory.

https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands; escaped as by
`@actions/core`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from grb_check.errors import count
from grb_check.files.text import fit
from grb_check.reports.case_line import WORDS
from grb_check.reports.digest import Digest
from grb_check.reports.plain import clipped

MOST: Final = 10  # GitHub shows as many for a step
LENGTH: Final = 1000  # characters of a message
_DATA: Final = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY: Final = {**_DATA, ":": "%3A", ",": "%2C"}


def in_github_actions(environment: Mapping[str, str]) -> bool:
    """Whether GitHub Actions reads what this process writes."""
    return environment.get("GITHUB_ACTIONS") == "true"


def workflow_command(level: str, message: str, *, title: str, file: str = "", line: int = 0) -> str:
    """Return `::error file=...,line=...,title=...::message`, which has to begin a line.

    Args:
        level: `error` or `warning`.
        message: of any text.
        title: of any text.
        file: path from the repository's root; empty for none.
        line: counted from 1.
    """
    placed = {"file": file, "line": str(line)} if file else {}
    properties = {**placed, "title": title}
    reported = ",".join(
        f"{name}={_escaped(value, _PROPERTY)}" for name, value in properties.items()
    )
    return f"::{level} {reported}::{_escaped(clipped(message, LENGTH), _DATA)}"


def annotation_lines(digest: Digest) -> list[str]:
    """Return a workflow command for each model that failed, with its worst case, at most `MOST`."""
    failed: dict[str, list[str]] = {}
    for line in digest.bad:
        reported = f"{digest.name_of(line)}: {line.first or WORDS[line.status]}"
        failed.setdefault(line.model, []).append(reported)
    for row in digest.further:
        failed.setdefault(row.model, []).append(row.text)
    for node_id in digest.unknown:
        failed.setdefault("", []).append(f"{node_id} {WORDS['missing']}")
    definitions = digest.record.definitions.items()
    locations = {fit(label): (place.file, place.line) for label, place in definitions}
    commands = []
    for model, texts in list(failed.items())[:MOST]:
        file, number = locations.get(model, ("", 0))
        more = f"\n{count(len(texts), 'failure')} in all" if texts[1:] else ""
        title = f"graph robustness{f' of {model}' if model else ''}"
        commands.append(
            workflow_command("error", f"{texts[0]}{more}", title=title, file=file, line=number)
        )
    return commands


def _escaped(text: str, codes: Mapping[str, str]) -> str:
    return "".join(codes.get(character, character) for character in fit(text))
