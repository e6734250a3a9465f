"""Lines of pytest's header."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from settings_factory import settings

from grb_check.session.header import header


def test_a_store_on_another_drive_is_shown_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Windows there is no relative path from one drive to another."""

    def no_way(*_: object) -> str:
        raise ValueError("path is on mount 'D:', start on mount 'C:'")

    monkeypatch.setattr(os.path, "relpath", no_way)
    store = tmp_path / "store"
    lines = header(settings(tmp_path, model=["m:f"], store=str(store)), 1, "cpu")
    assert f"store: {store} (command line)" in "\n".join(lines)


def test_a_store_that_is_only_read_says_so(tmp_path: Path) -> None:
    """So that nobody wonders why nothing is added to it."""
    made = settings(tmp_path, model=["m:f"], store=f"{tmp_path / 'kept'}?mode=read")
    assert f"store: {tmp_path / 'kept'}, read only (command line)" in "\n".join(header(made, 1, ""))
