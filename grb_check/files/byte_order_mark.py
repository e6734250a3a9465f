"""The byte order mark that editors and shells put at the start of text files."""

from __future__ import annotations

import codecs


def without_mark(raw: bytes) -> bytes:
    """Return the start, or all, of a text file without the byte order mark of UTF-8.

    Raises:
        ValueError: the mark is that of UTF-16 or UTF-32.
    """
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)):
        raise ValueError("it is UTF-16 or UTF-32; save it as UTF-8")
    return raw.removeprefix(codecs.BOM_UTF8)
