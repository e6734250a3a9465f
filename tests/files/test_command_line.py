"""Commands that are pasted into a shell."""

from __future__ import annotations

import shlex
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grb_check.files.text import command_line


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"))))
def test_a_posix_shell_reads_the_same_words(words: list[str]) -> None:
    """Whatever is in them."""
    assert shlex.split(command_line(words)) == words


def test_windows_quotes_with_double_quotes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A single quote is a letter there, and a backslash separates directories."""
    monkeypatch.setattr(sys, "platform", "win32")
    assert command_line(["lock", r"--data=C:\my graphs"]) == r'lock "--data=C:\my graphs"'
