"""The HTML page in a headless browser."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from browser import Seen, browser, look
from record_factory import rich, view

from grb_check.reports.html.page import page_text


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """The page on a phone in the light scheme, with a text that does not fit on a line."""
    browser()
    record = rich()
    record["environment"]["hostile"] = "x" * 400
    return look(page_text([view(record)]), tmp_path_factory.mktemp("narrow"), width=360)


def test_only_wide_tables_scroll_on_a_phone(narrow: Seen) -> None:
    """The page itself does not scroll horizontally."""
    assert (narrow.width, narrow.overflow, narrow.beyond) == (360, 0, [])
    assert narrow.scrolling >= 3


def test_the_page_makes_no_request_and_no_warning(narrow: Seen) -> None:
    """The console stays empty."""
    assert narrow.requests == []
    assert narrow.console == []
    assert narrow.lang == "en"
    assert narrow.title.startswith("failed: 4 of 16 cases passed")
    assert narrow.sections[0] == "broke"
    assert narrow.sections[-1] == "cases"


def test_dark_is_dark_and_light_is_light(narrow: Seen, tmp_path: Path) -> None:
    """The page follows the colour scheme of the system."""
    dark = look(page_text([view(rich())]), tmp_path, width=768, scheme="dark")
    assert _light(narrow.background) > 0.9 > 0.3 > _light(narrow.color)
    assert _light(dark.background) < 0.2 < 0.8 < _light(dark.color)
    assert (dark.overflow, dark.beyond) == (0, [])


def _light(color: str) -> float:
    """Return the mean of red, green and blue, in [0, 1]."""
    parts = [int(each) for each in re.findall(r"\d+", color)[:3]]
    return sum(parts) / (3 * 255)
