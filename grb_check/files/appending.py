"""Lines appended to a file that other processes append to as well.

A line is one `write` to a file opened for appending, which local file systems keep in one piece. No
lock is held, so that no lock file is left beside the file.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from grb_check.files.outputs import is_stream, write_output


def append_line(path: Path, line: bytes) -> None:
    """Append a line to a file, or make it and its directories; or write to a stream.

    A line that an earlier process left without its end is ended first.

    Args:
        path: of the file.
        line: without a line feed.

    Raises:
        OSError: it cannot be written, or not whole.
    """
    if is_stream(path):
        write_output(path, line + b"\n")
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
    opened = os.open(path, flags, 0o666)
    try:
        content = (b"" if _ends(opened) else b"\n") + line + b"\n"
        if os.write(opened, content) < len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(opened)
    finally:
        os.close(opened)


def _ends(opened: int) -> bool:
    """Whether a file is empty or ends with a line feed."""
    size = os.lseek(opened, 0, os.SEEK_END)
    if not size:
        return True
    os.lseek(opened, size - 1, os.SEEK_SET)
    return os.read(opened, 1) == b"\n"
