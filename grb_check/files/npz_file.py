"""Files of arrays with a header and a checksum, without pickles.

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

import msgspec

if TYPE_CHECKING:
    import numpy as np

    Arrays = Mapping[str, np.ndarray[Any, Any]]

HEADER: Final = "grb_check.json"
_DIGEST_LENGTH: Final = 64


class Unreadable(Exception):
    """A file was not made by `seal`, or is damaged; the message ends a sentence about the file."""


def seal(header: Mapping[str, Any], arrays: Arrays) -> bytes:
    """Return the bytes of a file, equal for equal content.

    Args:
        header: of builtin types.
        arrays: by name.

    Raises:
        ValueError: an array holds Python objects.
    """
    from numpy.lib import format as npy

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(fixed_member(HEADER), json.dumps(header))
        for name in sorted(arrays):
            with archive.open(fixed_member(f"{name}.npy"), "w", force_zip64=True) as member:
                npy.write_array(member, arrays[name], allow_pickle=False)
    plain = buffer.getvalue()
    digest = hashlib.sha256(plain).hexdigest().encode()
    # A zip ends with the length of its comment (two bytes, little endian) and the comment.
    return plain[:-2] + _DIGEST_LENGTH.to_bytes(2, "little") + digest


def unseal(content: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
    """Return the header and the arrays of a file that `seal` made.

    Raises:
        Unreadable: the file is another, or damaged.
    """
    from numpy.lib import format as npy

    plain, digest = content[: -_DIGEST_LENGTH - 2] + b"\0\0", content[-_DIGEST_LENGTH:]
    if _DIGEST_LENGTH.to_bytes(2, "little") != content[-_DIGEST_LENGTH - 2 : -_DIGEST_LENGTH]:
        raise Unreadable("is truncated or not a file of grb_check")
    if hashlib.sha256(plain).hexdigest().encode() != digest:
        raise Unreadable("is damaged: its content does not match its checksum")
    # From here on the bytes are those that were sealed, possibly by another version.
    try:
        with zipfile.ZipFile(io.BytesIO(plain)) as archive:
            if any(info.compress_type != zipfile.ZIP_STORED for info in archive.infolist()):
                raise Unreadable("is compressed, unlike files of grb_check")
            header = msgspec.json.decode(archive.read(HEADER))
            if not isinstance(header, dict):
                raise Unreadable(f"has a {type(header).__name__} as its header")
            arrays = {
                name.removesuffix(".npy"): npy.read_array(
                    io.BytesIO(archive.read(name)), allow_pickle=False
                )
                for name in archive.namelist()
                if name != HEADER
            }
    # The last three: an array that claims to exceed memory, and a header nested too deeply, or that
    # is not JSON or has a number beyond floats.
    except (
        zipfile.BadZipFile,
        KeyError,
        TypeError,
        ValueError,
        MemoryError,
        RecursionError,
        msgspec.MsgspecError,
    ) as error:
        raise Unreadable(f"cannot be read: {error}") from error
    return header, arrays


def fixed_member(name: str) -> zipfile.ZipInfo:
    """Return a zip member without a time stamp, the same on every system."""
    member = zipfile.ZipInfo(name)
    member.create_system = 3  # as on Unix; Windows has 0
    return member
