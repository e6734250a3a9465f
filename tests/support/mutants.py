"""Damaged versions of files that are read back, for tests of what reads them."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import random
import zipfile
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import numpy as np

from grb_check.files.typed_json import digest_of

NUMBERS: Final = (0, -1, 1, 10**30, 10**400, -(2**63), 2.5, 1e308, float("nan"), float("inf"))
OTHERS: Final = (None, True, "", "x", "1", [], [1], {}, {"a": 1}, "\x1b[31m", "\ud800", "é" * 300)
# Words that stand for what json.dumps cannot write, and shorter texts of the same kind.
RAW: Final = {
    "@DEEP": ("[" * 100_000 + "]" * 100_000, "[]"),
    "@DIGITS": ("9" * 1_000_000, "9"),
    "@HUGE": ("1e999", "1e308"),
    "@ZERO": ("-0", "0"),
}
HEAD: Final = "grb_check.json"
TWIN: Final = "@TWIN"  # a second field of the same name


def new_digest(file: dict[str, Any], kind: type[msgspec.Struct]) -> str | None:
    """The digest that a writer would give a changed file; None if its types are wrong.

    Args:
        file: as builtin types.
        kind: of its content.
    """
    head = ("kind", "format", "grb_check", "digest", "summary")
    fields = {name: value for name, value in file.items() if name not in head}
    try:
        msgspec.convert(fields, kind)
        return digest_of(fields)
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
        return None


def structural_mutants(file: dict[str, Any], number: int, seed: int) -> Iterator[bytes]:
    """Yield files in which one or two fields are deleted, replaced, retyped or duplicated.

    They keep the digest of the file.

    Args:
        file: as builtin types.
        number: of mutants.
        seed: of the choices.
    """
    rng = random.Random(seed)
    for _ in range(number):
        changed = copy.deepcopy(file)
        for _ in range(rng.choice((1, 1, 2))):
            _mutate(changed, rng)
        yield _text(changed).encode("utf-8", "surrogatepass")


def byte_mutants(raw: bytes, number: int, seed: int) -> Iterator[bytes]:
    """Yield files in which some bytes are changed, removed, inserted or repeated."""
    rng = random.Random(seed)
    for _ in range(number):
        content = bytearray(raw)
        for _ in range(rng.choice((1, 1, 1, 3, 10))):
            index, length = rng.randrange(len(content)), rng.choice((1, 1, 5, 50))
            some = bytes(rng.randrange(256) for _ in range(length))
            content[index : index + rng.choice((0, length))] = rng.choice(
                (some, b"", bytes(content[index : index + length]) * 2)
            )
        yield bytes(content[: rng.choice((len(content), rng.randrange(len(content) + 1)))])


def npz_mutants(raw: bytes, number: int, seed: int) -> Iterator[bytes]:
    """Yield files of `files.npz_file` with another head or another array, and a right checksum.

    Args:
        raw: a file.
        number: of mutants.
        seed: of the choices.
    """
    rng = random.Random(seed)
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for _ in range(number):
        changed = dict(members)
        if rng.randrange(3):
            head = json.loads(members[HEAD])
            for _ in range(rng.choice((1, 1, 2))):
                _mutate(head, rng)
            changed[HEAD] = _text(head).encode("utf-8", "surrogatepass")
        else:
            name = rng.choice([member for member in members if member != HEAD])
            changed[name] = _npy(rng)
            if not rng.randrange(4):
                del changed[name]
        yield sealed(changed)


def _npy(rng: random.Random) -> bytes:
    """A member with another array, or with none."""
    kinds = ("int64", "int32", "float32", "float64", "bool", "uint16", "U3", "complex64", "M8[s]")
    shape = [rng.choice((0, 1, 2, 3)) for _ in range(rng.randrange(4))]
    array = np.zeros(shape, rng.choice(kinds))
    if array.dtype.kind in "if":
        array += rng.choice((0, 1, -1, 10**9))
    stream = io.BytesIO()
    np.save(stream, array)
    return rng.choice((stream.getvalue(), stream.getvalue()[:-1], b""))


def sealed(members: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    plain = stream.getvalue()
    digest = hashlib.sha256(plain).hexdigest().encode()
    return plain[:-2] + len(digest).to_bytes(2, "little") + digest


def _mutate(file: Any, rng: random.Random) -> None:
    """Change one field of a random container."""
    container = rng.choice(list(_containers(file)))
    keys = list(container) if isinstance(container, dict) else range(len(container))
    key = rng.choice(list(keys))
    value = container[key]
    match rng.randrange(8):
        case 0:
            del container[key]
        case 1:
            container[key] = rng.choice(NUMBERS)
        case 2:
            container[key] = copy.deepcopy(rng.choice(OTHERS))  # a second change is to a copy
        case 3:
            container[key] = rng.choice(list(RAW))
        case 4:
            container[key] = _near(value, rng)
        case 5 if isinstance(container, dict):
            twins = (value, _near(value, rng), *NUMBERS, *OTHERS)
            container[f"{key}{TWIN}"] = copy.deepcopy(rng.choice(twins))
        case 6 if isinstance(container, dict):
            container[rng.choice((f"{key}_", key.upper(), "", *keys))] = container.pop(key)
        case _:
            container[key] = copy.deepcopy(rng.choice(list(_values(file))))


def _near(value: Any, rng: random.Random) -> Any:
    """Return a value of the same type that is close to another."""
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, (int, float)):
        return value + rng.choice((1, -1, 0.001, 100))
    if isinstance(value, str) and value:
        index = rng.randrange(len(value))
        return value[:index] + rng.choice("0a9 /") + value[index + 1 :]
    if isinstance(value, list):
        return rng.sample(value, len(value)) + value[: rng.randrange(2)]
    return value


def _containers(value: Any) -> Iterator[Any]:
    if isinstance(value, (dict, list)) and value:
        yield value
        for item in value.values() if isinstance(value, dict) else value:
            yield from _containers(item)


def _values(value: Any) -> Iterator[Any]:
    for container in _containers(value):
        yield from container.values() if isinstance(container, dict) else container


def _text(file: Any, *, short: bool = False) -> str:
    text = json.dumps(file, indent=1).replace(f'{TWIN}"', '"')
    for word, forms in RAW.items():
        text = text.replace(f'"{word}"', forms[short])
    return text
