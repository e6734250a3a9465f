"""Names of files that Windows refuses."""

from __future__ import annotations

import re
from typing import Final

# https://learn.microsoft.com/windows/win32/fileio/naming-a-file
_REFUSED: Final = re.compile(
    r'.*[<>:"/\\|?*\x00-\x1f].*|.*[. ]|(con|prn|aux|nul|(com|lpt)[0-9¹²³])( *\..*)?', re.I | re.S
)


def refused(name: str) -> bool:
    """Whether no file can have this name: characters, an end, or the name of a device."""
    return not 0 < len(name) <= 255 or _REFUSED.fullmatch(name) is not None
