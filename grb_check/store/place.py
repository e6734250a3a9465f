"""The place of a store, as plain data that any process can open.

Imports fsspec for a URL alone.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from grb_check.datasets.source import data_home, expanded
from grb_check.errors import UsageError
from grb_check.store.remote import Remote
from grb_check.store.store import Store

READ_ONLY: Final = "?mode=read"
_EXTRAS: Final = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs"}


@dataclass(frozen=True)
class StorePlace:
    """The place of a store, of builtin types.

    Attributes:
        location: an absolute path, or a URL that `read_url` returned.
        read_only: whether results are only read, and never written, removed or locked.
    """

    location: str
    read_only: bool = False

    @property
    def text(self) -> str:
        """What `place_of` reads as this place."""
        return f"{self.location}{READ_ONLY}" if self.read_only else self.location

    @property
    def cache(self) -> Path | None:
        """Folder in front of a URL; None for a folder.

        A URL that is only read has one of its own: what a run adds to it that may not write to the
        store is not used by one that may.
        """
        if not is_url(self.location):
            return None
        text = f"{'read' if self.read_only else 'read-write'} {self.location}"
        return data_home() / "stores" / hashlib.sha256(text.encode()).hexdigest()[:32]


def open_store(place: StorePlace | None) -> Store:
    """Return the store at a place; one that stores nothing for None.

    A store remembers that it failed, and says so once: a process opens it once in a run.
    """
    if place is None:
        return Store(None)
    if place.cache is None:
        return Store(Path(place.location), read_only=place.read_only)
    return Store(place.cache, remote=Remote(place.location, read_only=place.read_only))


def place_of(given: str | Path, name: str) -> StorePlace:
    """Return the place of a folder, relative to the working directory, or of a URL.

    Args:
        given: by the user; with `?mode=read` at its end, the store is only read.
        name: of the option or argument, for messages.

    Raises:
        UsageError: see `read_url`.
    """
    text = str(given).removesuffix(READ_ONLY)
    read_only = text != str(given)
    if "?mode=" in text:
        raise UsageError(f"{name} {text!r}: give a store that is only read with {READ_ONLY}")
    location = read_url(text, name) if is_url(text) else str(expanded(text).absolute())
    return StorePlace(location, read_only)


def is_url(text: str) -> bool:
    """Whether a text names a URL rather than a folder."""
    return "://" in text


def read_url(text: str, name: str) -> str:
    """Return a URL of fsspec whose protocol is known and installed, without a slash at the end.

    Args:
        text: of the URL.
        name: of the option or argument, for messages.

    Raises:
        UsageError: nothing can read it, a package is missing, or it holds credentials.
    """
    from fsspec import available_protocols, get_filesystem_class
    from fsspec.registry import known_implementations

    protocol, _, path = text.partition("://")
    if protocol in ("file", "local") or protocol not in available_protocols():
        raise UsageError(
            f"{name}: {protocol!r} is not a protocol of fsspec for other machines; give a "
            f"directory, or a URL such as s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or memory://NAME"
        )
    if re.search(r":.*@", path) or re.search(r"[?#\s]|::", path) or not path.isprintable():
        raise UsageError(  # without the rest, which may be a password
            f"{name} {protocol}://... has a password, another query than {READ_ONLY}, a blank "
            f"or a second protocol; write {protocol}://BUCKET/PREFIX, and give credentials as the "
            f"tools of your provider read them, such as AWS_ACCESS_KEY_ID"
        )
    if not path.strip("/"):
        raise UsageError(f"{name} {text!r} names no bucket; write {protocol}://BUCKET/PREFIX")
    known = known_implementations.get(protocol, {})
    package = known.get("class", "fsspec").partition(".")[0]
    try:
        if package == "fsspec":
            get_filesystem_class(protocol)
        elif find_spec(package) is None:  # it is imported at the first access
            raise ImportError(known.get("err", f"pip install {package}"))
    except ImportError as error:
        extra = _EXTRAS.get(protocol)
        advice = f"pip install 'grb-check[{extra}]'" if extra else error
        raise UsageError(f"{name} {text!r} needs a package that is missing: {advice}") from None
    return text.rstrip("/")
