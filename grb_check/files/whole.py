"""Write files whole: a reader sees the old content or the new one, never a part."""

from __future__ import annotations

import os
import stat
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import IO

from grb_check.errors import DataError


class UnwritableError(DataError):
    """A file cannot be written, whatever its source."""


@contextmanager
def writing(where: Path) -> Iterator[None]:
    """Turn errors of the file system into an `UnwritableError` that names the path."""
    try:
        yield
    except (OSError, NotImplementedError) as error:  # the latter: a file system without locks
        reason = getattr(error, "strerror", None) or error
        msg = f"{where}: cannot be written: {reason}; make room or choose another directory"
        raise UnwritableError(msg) from error


def write_whole(path: Path, content: bytes) -> None:
    """Write a file in one step, see `writing_whole`.

    Raises:
        OSError: the directory does not exist or cannot be written to.
    """
    with writing_whole(path) as stream:
        stream.write(content)


@contextmanager
def writing_whole(path: Path) -> Iterator[IO[bytes]]:
    """Yield a stream to a temporary file, which is synced and renamed when the context ends.

    A file that is replaced keeps its permissions, and its owner where the system allows it. After
    an error the old file is left as it was.

    Raises:
        OSError: the directory does not exist or cannot be written to.
    """
    temporary = path.with_name(f".grb_check-{uuid.uuid4().hex}")  # the file's own may be too long
    try:
        with temporary.open("xb") as stream:
            yield stream
            stream.flush()
            _keep_permissions(path, stream.fileno())
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _keep_permissions(path: Path, descriptor: int) -> None:
    if sys.platform == "win32":  # a new file inherits the access rules of its directory
        return
    with suppress(FileNotFoundError, PermissionError):
        before = path.stat()
        os.fchmod(descriptor, stat.S_IMODE(before.st_mode))
        os.fchown(descriptor, before.st_uid, before.st_gid)


def shown(path: PurePath, here: PurePath | None = None) -> str:
    """Return a path for messages: relative to the working directory if it lies below that."""
    here = here or Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
