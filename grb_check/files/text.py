"""Text without what breaks or hides other text on a terminal, in a log of CI or on a page."""

from __future__ import annotations

import codecs
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, Final

SHOWN: Final = "\N{REPLACEMENT CHARACTER}"
# Control characters but tab and line feed, what else XML 1.0 refuses (surrogates, non-characters),
# and the marks that turn the direction of what follows, so that a name can pose as another.
_UNFIT: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufddf\ufffe\uffff"
    "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)
# Colours of a terminal, which a traceback may hold.
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
# Workflow commands of GitHub Actions: `::` after spaces at the beginning of a line, and the older
# `##[` anywhere. A name in a record must not end a group or mask words in the log of another job.
_COMMAND: Final = re.compile(r"^([^\S\n]*):(?=:)|#(?=#\[)", re.MULTILINE)
_SEVERAL_LINES: Final = "message"  # the field of texts that may hold a traceback


def without_mark(raw: bytes) -> bytes:
    """Return the start, or all, of a text file without the byte order mark of UTF-8.

    Raises:
        ValueError: the mark is that of UTF-16 or UTF-32.
    """
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)):
        raise ValueError("it is UTF-16 or UTF-32; save it as UTF-8")
    return raw.removeprefix(codecs.BOM_UTF8)


def command_line(words: Sequence[str]) -> str:
    """Return the line that passes these words: to a POSIX shell, or on Windows to `cmd`."""
    if sys.platform == "win32":
        return subprocess.list2cmdline(words)
    return shlex.join(words)


def fit(text: object) -> str:
    """Return the text with a mark in place of each character that breaks, hides or commands."""
    plain = _UNFIT.sub(SHOWN, _COLOURS.sub("", str(text)).replace("\r\n", "\n"))
    return _COMMAND.sub(rf"\g<1>{SHOWN}", plain)


def fit_line(text: object) -> str:
    """Return the text likewise, and on one line, so that no name can pose as a line of its own."""
    return fit(text).replace("\n", SHOWN)


def fit_all(value: Any, name: str = "") -> Any:
    """Return builtin types with all their texts on one line, but for fields named `message`.

    Raises:
        ValueError: two names of fields become the same.
    """
    if isinstance(value, str):
        return fit(value) if name == _SEVERAL_LINES else fit_line(value)
    if isinstance(value, dict):
        result = {fit_line(key): fit_all(item, key) for key, item in value.items()}
        if len(result) < len(value):
            raise ValueError("two of its names differ in control characters alone")
        return result
    if isinstance(value, (list, tuple)):
        return [fit_all(item, name) for item in value]
    return value
