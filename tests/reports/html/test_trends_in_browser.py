"""The page about a history in a headless browser."""

from __future__ import annotations

from pathlib import Path

from browser import look
from history_factory import past_run
from msgspec.structs import replace

from grb_check.reports.html.trends import trend_text


def test_nothing_scrolls_on_a_phone_and_dark_is_dark(tmp_path: Path) -> None:
    """Tables scroll in their own boxes; nothing is requested."""
    runs = [past_run(day, [0.1, 0.5, None, 0.2]) for day in range(30)]
    named = replace(runs[0].cases[0], model="m" * 300)
    runs[-1] = replace(runs[-1], cases=(named, *runs[-1].cases), headline="x" * 300)
    seen = look(trend_text(runs, "1"), tmp_path, width=360, scheme="dark")
    assert (seen.width, seen.overflow, seen.beyond) == (360, 0, [])
    assert (seen.requests, seen.console) == ([], [])
    assert seen.sections == ["drops", "runs"]
    assert seen.background == "rgb(15, 19, 23)"
