"""Files under keys, each with a checksum: perturbations, arrays and texts.

Imports torch only when a perturbation is read or written.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from filelock import FileLock

from grb_check.errors import StoreWarning, count
from grb_check.files.npz_file import Unreadable, seal, unseal
from grb_check.files.outputs import write_whole

if TYPE_CHECKING:
    import numpy as np

    from grb_check.attacks.threat import Perturbation

    Arrays = Mapping[str, np.ndarray[Any, Any]]

Kind = Literal["perturbation", "arrays", "text"]

FORMAT: Final = 1
_CACHEDIR_TAG: Final = """\
Signature: 8a477f597d28d172789f06886806bc55
# This folder holds results that grb_check makes again when they are missing.
"""


class Store:
    """Npz files, each under a key made from everything that its content depends on.

    Several processes may share a folder: a file appears whole or not at all. A file that is
    damaged, foreign or of another format version is discarded with a `StoreWarning` and counts as
    missing. A folder that cannot be written to causes one warning, and is then ignored.

    File format 1: see `files.npz_file`; the head has format, key, kind and notes.

    Args:
        folder: made at the first write; None stores nothing.
        read_only: whether files of the folder are only read: new results are not stored, files that
            cannot be used stay, and nothing is locked.
        made: takes the files of perturbations and texts that are saved, by key; None for nothing.
    """

    def __init__(
        self,
        folder: Path | None,
        *,
        read_only: bool = False,
        made: dict[str, bytes] | None = None,
    ) -> None:
        self.folder = folder
        self._made = made
        self._writes = folder is not None and not read_only
        self._warned = False

    def key(self, **parts: str | int | float) -> str:
        """Hex digest of the named parts, in any order."""
        text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def load_perturbation(self, key: str) -> Perturbation | None:
        """Return the perturbation under this key, if any; the caller verifies it."""
        result = self._load(key, "perturbation")
        if result is None:
            return None
        from grb_check.attacks.threat import TENSORS, perturbation_of  # imports torch

        arrays, notes = result
        try:
            if set(arrays) <= set(TENSORS):
                return perturbation_of(arrays, notes)
        except KeyError:
            pass
        except TypeError as error:  # a dtype that torch lacks
            self.discard(key, f"cannot be read: {error}")
            return None
        self.discard(key, f"has members {sorted(arrays)}")
        return None

    def save_perturbation(self, key: str, perturbation: Perturbation) -> None:
        """Store a perturbation."""
        if self._made is None and not self._writes:
            return
        arrays = {name: tensor.numpy() for name, tensor in perturbation.named_tensors().items()}
        content = _encode(key, "perturbation", arrays, perturbation.notes)
        if self._made is not None:
            self._made[key] = content
        self._write(key, content)

    def add(self, key: str, content: bytes) -> None:
        """Store a file of another store, unless there is one."""
        path = self._path(key)
        if path is not None and self._writes and not os.path.exists(path):
            self._write(key, content)

    def load_arrays(self, key: str) -> dict[str, np.ndarray[Any, Any]] | None:
        """Return the arrays under this key, if any."""
        result = self._load(key, "arrays")
        return None if result is None else result[0]

    def save_arrays(self, key: str, arrays: Arrays) -> None:
        """Store named arrays.

        Raises:
            ValueError: an array holds Python objects.
        """
        self._save(key, "arrays", arrays, ())

    def load_text(self, key: str) -> str | None:
        """Return the text under this key, if any."""
        result = self._load(key, "text")
        if result is None:
            return None
        notes = result[1]
        if len(notes) != 1:
            self.discard(key, f"has {count(len(notes), 'text')}, expected 1")
            return None
        return notes[0]

    def save_text(self, key: str, text: str) -> None:
        """Store a text."""
        content = _encode(key, "text", {}, (text,))
        if self._made is not None:
            self._made[key] = content
        self._write(key, content)

    def discard(self, key: str, reason: str) -> None:
        """Remove the file under this key, with a warning that names it and the reason."""
        path = self._path(key)
        if path is None:
            return
        end = "discarded, it will be recomputed" if self._writes else "ignored, it is recomputed"
        _warn(f"{path}: {reason}; {end}")
        if self._writes:
            with suppress(OSError):
                path.unlink()

    @contextmanager
    def lock(self, key: str) -> Iterator[None]:
        """Make other processes wait that would compute the same at the same time."""
        with ExitStack() as held:
            if self._writes:
                try:
                    folder = self._prepare() / "locks"
                    folder.mkdir(exist_ok=True)
                    held.enter_context(FileLock(folder / f"{key}.lock"))
                except (OSError, NotImplementedError) as error:
                    self._warn_unusable(error)
            yield

    def _path(self, key: str) -> Path | None:
        return None if self.folder is None else self.folder / key[:2] / f"{key}.npz"

    def _load(
        self, key: str, kind: Kind
    ) -> tuple[dict[str, np.ndarray[Any, Any]], list[str]] | None:
        path = self._path(key)
        if path is None:
            return None
        try:
            return _decode(path.read_bytes(), key, kind)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, Unreadable) as error:
            self.discard(key, str(error))
            return None

    def _save(self, key: str, kind: Kind, arrays: Arrays, notes: tuple[str, ...]) -> None:
        if self._writes:
            self._write(key, _encode(key, kind, arrays, notes))

    def _write(self, key: str, content: bytes) -> None:
        path = self._path(key)
        if path is None or not self._writes:
            return
        try:
            self._prepare()
            path.parent.mkdir(exist_ok=True)
            write_whole(path, content)
        except OSError as error:
            self._warn_unusable(error)

    def _prepare(self) -> Path:
        assert self.folder is not None
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, text in ((".gitignore", "*\n"), ("CACHEDIR.TAG", _CACHEDIR_TAG)):
            if not (self.folder / name).exists():
                write_whole(self.folder / name, text.encode())
        return self.folder

    def _warn_unusable(self, error: Exception) -> None:
        if not self._warned:
            self._warned = True
            _warn(f"the store {self.folder} cannot be written to: {error}; nothing is stored")


def _encode(key: str, kind: str, arrays: Arrays, notes: tuple[str, ...]) -> bytes:
    return seal({"format": FORMAT, "key": key, "kind": kind, "notes": notes}, arrays)


def _decode(
    content: bytes, key: str, kind: str
) -> tuple[dict[str, np.ndarray[Any, Any]], list[str]]:
    header, arrays = unseal(content)
    expected = {"format": FORMAT, "key": key, "kind": kind}
    result = {name: header.get(name) for name in expected}
    if result != expected:
        raise Unreadable(f"holds {result}, expected {expected}")
    notes = header.get("notes")
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        raise Unreadable("cannot be read: its notes are not a list of texts")
    return arrays, notes


def _warn(message: str) -> None:
    warnings.warn(message, StoreWarning, stacklevel=3)
