"""Datasets by name or folder. Importing this loads neither numpy nor torch; `load` does."""

from __future__ import annotations

from grb_check.datasets.catalogue import Source, find, known_names, load
from grb_check.datasets.notice import DataNotice

__all__ = ["DataNotice", "Source", "find", "known_names", "load"]
