"""Files of arrays with a head, that tell when they were damaged, without pickles.

A file is a zip of npy members and `grb_check.json`; its zip comment is the SHA-256 of the file
without the comment. Imports numpy when a file is made or read.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np

    Arrays = Mapping[str, np.ndarray[Any, Any]]

_HEADER: Final = "grb_check.json"
_DIGEST_LENGTH: Final = 64


class Unreadable(Exception):
    """A file is not one that `seal` made; says why, as the end of a sentence about the file."""


def seal(header: Mapping[str, Any], arrays: Arrays) -> bytes:
    """The bytes of a file; the same ones for the same content.

    Args:
        header: of builtin types.
        arrays: by name.

    Raises:
        ValueError: an array holds Python objects.
    """
    from numpy.lib import format as npy

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(_fixed(_HEADER), json.dumps(header))
        for name in sorted(arrays):
            with archive.open(_fixed(f"{name}.npy"), "w", force_zip64=True) as member:
                npy.write_array(member, arrays[name], allow_pickle=False)
    plain = buffer.getvalue()
    digest = hashlib.sha256(plain).hexdigest().encode()
    # A zip ends with the length of its comment (two bytes, little endian) and the comment.
    return plain[:-2] + _DIGEST_LENGTH.to_bytes(2, "little") + digest


def unseal(content: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
    """Header and arrays of what `seal` made.

    Raises:
        Unreadable: it is something else, or damaged.
    """
    from numpy.lib import format as npy

    plain, digest = content[: -_DIGEST_LENGTH - 2] + b"\0\0", content[-_DIGEST_LENGTH:]
    if _DIGEST_LENGTH.to_bytes(2, "little") != content[-_DIGEST_LENGTH - 2 : -_DIGEST_LENGTH]:
        raise Unreadable("is truncated or no file of grb_check")
    if hashlib.sha256(plain).hexdigest().encode() != digest:
        raise Unreadable("is damaged: its content does not match its checksum")
    # From here on the bytes are those that were sealed, perhaps by another version.
    try:
        with zipfile.ZipFile(io.BytesIO(plain)) as archive:
            if any(each.compress_type != zipfile.ZIP_STORED for each in archive.infolist()):
                raise Unreadable("is compressed, which no file of grb_check is")
            header = json.loads(archive.read(_HEADER))
            if not isinstance(header, dict):
                raise Unreadable(f"has a {type(header).__name__} as its head")
            arrays = {
                name.removesuffix(".npy"): npy.read_array(
                    io.BytesIO(archive.read(name)), allow_pickle=False
                )
                for name in archive.namelist()
                if name != _HEADER
            }
    # The last two: an array that says it is larger than memory, and a head nested without end.
    except (
        zipfile.BadZipFile,
        KeyError,
        TypeError,
        ValueError,
        MemoryError,
        RecursionError,
    ) as error:
        raise Unreadable(f"cannot be read: {error}") from error
    return header, arrays


def _fixed(name: str) -> zipfile.ZipInfo:
    """A member without the time of day."""
    return zipfile.ZipInfo(name)
