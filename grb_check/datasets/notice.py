"""The warning that a dataset was not quite as it should be."""

from __future__ import annotations


class DataNotice(UserWarning):
    """A dataset was repaired, or has an oddity that can change what the figures mean."""
