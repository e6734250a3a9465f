"""Progress on a terminal."""

from __future__ import annotations

import os
import select
from types import SimpleNamespace

import pytest

from grb_check.runs import how_far
from grb_check.session import progress
from grb_check.session.progress import LogLines, Ticker


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


def test_the_end_of_a_step_has_room_beside_a_long_text() -> None:
    """It is cut, so that both are one line."""
    read_end, write_end = os.pipe()
    ticker = Ticker(write_end, lambda: 0, 24)
    ticker._show("a text of more than a line", " (30 s)")
    assert "\ra text of more t (30 s)\x1b[K" in written(read_end)
    ticker.close()
    os.close(read_end)


def test_a_log_has_a_line_from_a_step_that_tells_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LOGGED", 0.0)
    read_end, write_end = os.pipe()
    monkeypatch.setattr(progress, "SOON", 0.0)
    now = [0.0]
    for module in (progress, how_far):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    log = LogLines(write_end)
    with log("training"):
        pass
    assert written(read_end) == ""
    with log("proving") as tell:
        now[0] = 40.0
        tell(0.5)
    assert written(read_end) == "\ngrb: proving (40 s, 50 % tried, about 40 s left)\n"
    log.close()
    os.close(read_end)
