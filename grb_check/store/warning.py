"""The warning of everything about a store that does not stop a run."""

from __future__ import annotations


class StoreWarning(UserWarning):
    """A stored file was discarded, or the store cannot be used."""
