"""Outputs at paths that the user names: checked before the work, written at its end.

A regular file is replaced in one step, behind all symbolic links. Devices, pipes and what
a shell has opened, such as /dev/stdout, which Windows lacks, are written to as they are.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import IO, Final

from grb_check.errors import DataError, UsageError, one_line
from grb_check.files.text import fit_line

_DESCRIPTORS: Final = {"/dev/stdout": 1, "/dev/stderr": 2}
_OPEN: Final = re.compile(r"/dev/fd/(\d+)")  # as a shell names a pipe to a command


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


def shown(path: PurePath, cwd: PurePath | None = None) -> str:
    """Return a path for messages: relative to the working directory if it lies below that."""
    cwd = cwd or Path.cwd()
    return str(path.relative_to(cwd)) if path.is_relative_to(cwd) else str(path)


def named_output(flag: str, text: str) -> str:
    """Return the text of an option that names an output.

    Raises:
        UsageError: it is empty, or `-`; on Windows also a path such as /dev/stdout.
    """
    windows = sys.platform == "win32"
    if text.strip() in ("", "-") or (windows and text.startswith("/dev/")):
        hint = "" if windows else ", such as /dev/stdout for the standard output"
        raise UsageError(f"{flag} {text!r} does not name a file; give a path{hint}")
    return text


def check_output(flag: str, path: Path) -> None:
    """Check that an output can be written, and leave the file system as it is.

    Raises:
        UsageError: the path is a directory, or cannot be written to.
    """
    try:
        if (number := _descriptor(path)) is not None:
            os.write(number, b"")  # an error if it is closed, or open for reading alone
        elif is_stream(path):
            if not os.access(path, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        elif path.exists() and not path.is_file():
            raise OSError("it is not a file, a character device or a pipe")
        else:
            target = path.resolve(strict=path.exists())
            if target.is_file():
                os.close(os.open(target, os.O_WRONLY))
            _check_new(target)
    except (OSError, RuntimeError, ValueError) as error:  # a null character; links in a circle
        raise UsageError(
            f"{flag} {str(path)!r} cannot be written: {reason(error)}; give the path of a file"
        ) from None


def is_stream(path: Path) -> bool:
    """Whether a path is written to as it is: a device, a pipe, or what a shell has opened."""
    return _descriptor(path) is not None or path.is_char_device() or path.is_fifo()


def write_output(path: Path, content: bytes) -> None:
    """Replace a file, or make it and its directories; or write to a stream.

    Raises:
        OSError: it cannot be written; a pipe has no reader.
    """
    if is_stream(path):
        sys.stdout.flush()  # what was written before comes first
        sys.stderr.flush()
        with open(_opened(path), "wb") as stream:
            stream.write(content)
        return
    target = path.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        write_whole(target, content)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        target.write_bytes(content)  # mounted by itself, as into a container


def try_write(
    path: Path, text: Callable[[], str], write: Callable[[Path, bytes], None] = write_output
) -> str:
    """Write an output, so that one that cannot be made or written costs no other.

    Args:
        path: to write to.
        text: returns the content.
        write: writes it.

    Returns:
        One line that says why it was not written; empty if it was.
    """
    try:
        write(path, text().encode())
    except Exception as error:  # of the file system, or of code that renders the text
        return fit_line(f"{shown(path)} not written: {reason(error)}")
    return ""


def reason(error: BaseException) -> str:
    """Return the cause of an error in one line, with its class if it is not of the system."""
    if isinstance(error, OSError):
        return error.strerror or one_line(error)
    return f"{type(error).__name__}: {one_line(error)}"


def _check_new(target: Path) -> None:
    """Check that a file can be made, or replaced by one that is written beside it.

    Raises:
        OSError: its nearest directory takes no file, or a name is too long.
    """
    there = next((parent for parent in target.parents if parent.exists()), None)
    if there is None:
        raise OSError(f"there is no drive {target.anchor}")
    for name in target.relative_to(there).parts:
        with suppress(FileNotFoundError):
            (there / name).lstat()
    tempfile.TemporaryFile(dir=there).close()


def _descriptor(path: Path) -> int | None:
    match = _OPEN.fullmatch(str(path))
    return _DESCRIPTORS.get(str(path)) if match is None else int(match[1])


def _opened(path: Path) -> int:
    number = _descriptor(path)
    if number is not None:
        return os.dup(number)
    if sys.platform == "win32" or not path.is_fifo():
        return os.open(path, os.O_WRONLY)
    opened = os.open(path, os.O_WRONLY | os.O_NONBLOCK)  # without a reader an error, no wait
    os.set_blocking(opened, True)
    return opened
