"""Output of the commands."""

from __future__ import annotations

import io
import sys

import pytest

from grb_check.cli.console import say


@pytest.mark.parametrize(
    ("encoding", "written"),
    [("utf-8", "Veličković ±"), ("cp1252", "Veli\\u010dkovi\\u0107 ±"), ("ascii", "\\xb1")],
)
def test_characters_that_a_pipe_cannot_take_are_escaped(
    monkeypatch: pytest.MonkeyPatch, encoding: str, written: str
) -> None:
    """The code page of Western Europe, as of a pipe on Windows, has no č."""
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding, newline="")
    monkeypatch.setattr(sys, "stdout", out)
    say("Veličković ±")
    assert written in out.buffer.getvalue().decode(encoding)
