"""Tracebacks reduced to the frames of the user's own files."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path
from typing import Final

_OURS: Final = str(Path(__file__).parent.parent)
_STANDARD: Final = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib"))
_INSTALLED: Final = tuple(sysconfig.get_path(name) for name in ("purelib", "platlib"))


def short_traceback(error: BaseException, *, limit: int = 5) -> str:
    """Return the last frames of the user's own files, then the error, as Python prints them.

    Frames of this package, of the standard library and of installed packages are left out; if
    there are no others, those of installed packages are shown.
    """
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((_OURS, "<frozen"))
        # Installed packages usually lie in a directory of the standard library.
        and (frame.filename.startswith(_INSTALLED) or not frame.filename.startswith(_STANDARD))
    ]
    of_user = [frame for frame in frames if not frame.filename.startswith(_INSTALLED)]
    lines = traceback.format_list((of_user or frames)[-limit:])
    return "".join([*lines, *traceback.format_exception_only(error)]).rstrip()
