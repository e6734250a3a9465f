"""Progress on a terminal and in a log."""

from __future__ import annotations

import os
import select
from types import SimpleNamespace

import pytest

from grb_check.runs import how_far
from grb_check.session import progress
from grb_check.session.progress import LogLines, Ticker

PATIENCE = 60.0  # seconds, after which nothing will be written any more


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
        assert select.select([read_end], [], [], PATIENCE)[0]  # until something is written
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


@pytest.mark.parametrize(
    ("share", "text"), [(0.0, "(40 s)"), (0.5, "(40 s, 50 % tried, about 40 s left)")]
)
def test_a_log_has_a_line_from_a_long_step(
    share: float, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also from one that does not tell its share."""
    monkeypatch.setattr(progress, "WAKE", 0.01)
    read_end, write_end = os.pipe()
    now = [0.0]
    for module in (progress, how_far):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    log = LogLines(write_end)
    with log("proving") as tell:
        assert written(read_end) == ""
        tell(share)
        now[0] = 40.0
        assert select.select([read_end], [], [], PATIENCE)[0]  # until something is written
    assert written(read_end) == f"\ngrb: proving {text}\n"
    log.close()
    os.close(read_end)
