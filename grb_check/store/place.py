"""Where a store is, as plain data that any process can open."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from grb_check.store.store import Store


@dataclass(frozen=True)
class StorePlace:
    """Where a store is, of builtin types.

    Attributes:
        location: an absolute path.
        read_only: whether results are only read, and never written, removed or locked.
    """

    location: str
    read_only: bool = False


def open_store(place: StorePlace | None) -> Store:
    """Return the store at a place; one that stores nothing for None.

    A store remembers that its folder cannot be used and says so once, so a process opens it once.
    """
    if place is None:
        return Store(None)
    return Store(Path(place.location), read_only=place.read_only)
