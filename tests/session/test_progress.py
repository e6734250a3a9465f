"""Progress on a terminal."""

from __future__ import annotations

import os
import select
from types import SimpleNamespace

import pytest

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


def test_a_step_that_tells_its_share_shows_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the text is longer than the line."""
    clock = iter([0.0])
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(clock, 20.0)))
    far = progress.HowFar()
    assert str(far) == "20 s"
    far.tell(0.25)
    assert str(far) == "20 s, 25 % tried, about 60 s left"
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
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now[0]))
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
