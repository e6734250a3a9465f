"""Progress on a terminal."""

from __future__ import annotations

import os
import select

import pytest

from grb_check.session import progress
from grb_check.session.progress import Ticker


def written(read_end: int) -> str:
    os.set_blocking(read_end, False)
    try:
        return os.read(read_end, 100_000).decode()
    except BlockingIOError:
        return ""


def test_a_long_step_shows_its_text_and_cleans_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line below is written and erased, and the cursor returns to its column."""
    monkeypatch.setattr(progress, "FIRST", 0.01)
    monkeypatch.setattr(progress, "EVERY", 0.01)
    read_end, write_end = os.pipe()
    ticker = Ticker(write_end, lambda: 7, 40)
    with ticker("attacking"):
        select.select([read_end], [], [])  # until something is written
    text = written(read_end)
    assert "\n\rattacking (0 s)\x1b[K\x1b[1A\x1b[8G" in text
    assert text.endswith("\n\r\x1b[K\x1b[1A\x1b[8G")
    ticker.close()
    os.close(read_end)
