"""Where the dataset that comes with the package lies."""

from __future__ import annotations

from pathlib import Path


def bundled_folder(name: str) -> Path:
    """The folder of a bundled dataset: package data of an installed wheel, else the checkout's."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "fixtures" / name
    return installed if installed.is_dir() else package.parent / "fixtures" / name
