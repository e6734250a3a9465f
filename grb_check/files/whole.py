"""Write files whole: a reader sees the old content or the new one, never a part."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from grb_check.errors import UsageError


def write_whole(path: Path, content: bytes) -> None:
    """Write a file in one step: a temporary file beside it, synced, then renamed.

    Raises:
        OSError: the directory does not exist or cannot be written to.
    """
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with temporary.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def check_writable(flag: str, path: Path) -> None:
    """Check that a file can be written, and make its directory.

    Raises:
        UsageError: the path is a directory, or its directory cannot be written to.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        is_file = not path.is_dir() and os.access(path if path.exists() else path.parent, os.W_OK)
    except (OSError, ValueError) as error:  # ValueError: a null character
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"{flag} {str(path)!r}: {why}; give the path of a file") from None
    if not is_file:
        raise UsageError(f"{flag} {str(path)!r} cannot be written; give the path of a file")


def shown(path: Path, here: Path | None = None) -> str:
    """Return a path for messages: relative to the working directory if it lies below that."""
    here = here or Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
