"""The place of a store, as plain data that any process can open."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from grb_check.datasets.source import expanded
from grb_check.errors import UsageError
from grb_check.store.store import Store

READ_ONLY: Final = "?mode=read"


@dataclass(frozen=True)
class StorePlace:
    """The place of a store, of builtin types.

    Attributes:
        location: an absolute path.
        read_only: whether results are only read, and never written, removed or locked.
    """

    location: str
    read_only: bool = False

    @property
    def text(self) -> str:
        """The text that `place_of` reads as this place."""
        return f"{self.location}{READ_ONLY}" if self.read_only else self.location


def open_store(place: StorePlace | None, made: dict[str, bytes] | None = None) -> Store:
    """Return the store at a place; one that stores nothing for None.

    A store remembers that it failed, and says so once: a process opens it once in a run.

    Args:
        place: of its folder.
        made: takes the files of perturbations and texts that are saved, by key; None for nothing.
    """
    if place is None:
        return Store(None)
    return Store(Path(place.location), read_only=place.read_only, made=made)


def place_of(given: str | Path, name: str) -> StorePlace:
    """Return the place of a folder, relative to the working directory.

    Args:
        given: by the user; with `?mode=read` at its end, the store is only read.
        name: of the option or argument, for messages.

    Raises:
        UsageError: it is a URL, or has another mode.
    """
    text = str(given).removesuffix(READ_ONLY)
    if "?mode=" in text:
        raise UsageError(f"{name} {text!r}: give a store that is only read with {READ_ONLY}")
    if "://" in text:
        raise UsageError(
            f"{name} is a URL, and a store is a directory; copy it from and to a bucket with the "
            f"tools of your provider, as by `aws s3 sync`"
        )
    return StorePlace(str(expanded(text).absolute()), text != str(given))
