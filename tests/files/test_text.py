"""Commands that are pasted into a shell."""

from __future__ import annotations

import shlex
import sys
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grb_check.files.text import command_line, fit, fit_all, fit_line


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"))))
def test_a_posix_shell_reads_the_same_words(words: list[str]) -> None:
    """Whatever is in them."""
    assert shlex.split(command_line(words)) == words


def test_windows_quotes_with_double_quotes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A single quote is a letter there, and a backslash separates directories."""
    monkeypatch.setattr(sys, "platform", "win32")
    assert command_line(["lock", r"--data=C:\my graphs"]) == r'lock "--data=C:\my graphs"'


ANY_TEXT = st.text(st.characters(codec=None), max_size=20) | st.sampled_from(
    [
        "\x1b[31mred",
        "one\n ::error::x",
        "##[group]",
        "a\r=== 5 passed ===",
        "\x9b2J",
        "a\u202eb",
        "\ud800",
        "one\ntwo",
        "\x85",
    ]
)
VALUES = st.recursive(
    ANY_TEXT | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
)


def shown_raw(text: str, allowed: str = "") -> bool:
    """Whether a terminal would obey a character of the text rather than show it."""
    return any(
        unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
        for character in text.replace(allowed, "")
    )


@given(ANY_TEXT)
def test_no_character_is_obeyed(text: str) -> None:
    """But tabs, and line feeds where several lines are allowed."""
    assert not shown_raw(fit(text).replace("\t", ""), allowed="\n")
    assert not shown_raw(fit_line(text).replace("\t", ""))
    assert fit(fit(text)) == fit(text)


@given(st.lists(ANY_TEXT | st.sampled_from(["\n", " ", "\t", ":", "::error::", "#", "##["])))
def test_no_line_is_a_workflow_command(parts: list[str]) -> None:
    """As GitHub's runner reads them: `::` after spaces, and the older `##[` anywhere."""
    for line in fit("".join(parts)).split("\n"):
        assert not line.lstrip().startswith("::")
        assert "##[" not in line


@given(VALUES)
def test_whatever_the_nesting(value: Any) -> None:
    """Names of fields included."""

    def texts(part: Any) -> list[str]:
        if isinstance(part, dict):
            return [text for pair in part.items() for item in pair for text in texts(item)]
        return [text for item in part for text in texts(item)] if isinstance(part, list) else [part]

    try:
        fitted = fit_all({"x": value})
    except ValueError:  # two names would become one
        return
    strings = [text for text in texts(fitted) if isinstance(text, str)]
    assert not any(shown_raw(text.replace("\t", ""), allowed="\n") for text in strings)
