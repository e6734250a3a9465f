"""Damaged run records: one field of the structure changed, or a few bytes of the file."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from random import Random
from typing import Any

import msgspec

from grb_check.files.typed_json import digest_of
from grb_check.reports.record import KIND, RunRecord

VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 7, 10**30, 0.5, -0.5, 1e308, "", "x", "a/b", "a/b/c/d",
    "easy/injection/pgd", "grb::d::test_attack[easy/injection/pgd]", "\N{NULL}", "pass", "AAAA",
    [], {}, [[]], ["x"], {"x": 1},
)  # fmt: skip


def changed(fields: Mapping[str, Any], draw: Random) -> dict[str, Any]:
    """Return a copy in which one value was deleted, replaced, repeated or given another type."""
    copied = copy.deepcopy(dict(fields))
    parent, key = draw.choice(_places(copied))
    value = parent[key]
    kind = draw.choice(("delete", "replace", "repeat", "retype"))
    if kind == "delete":
        del parent[key]
    elif kind == "repeat" and isinstance(parent, list):
        parent.insert(key, copy.deepcopy(value))
    elif kind == "retype":
        parent[key] = draw.choice([str(value), [value], {"value": value}, float(len(str(value)))])
    else:
        same = [other[at] for other, at in _places(copied) if type(other[at]) is type(value)]
        parent[key] = copy.deepcopy(draw.choice([draw.choice(VALUES), draw.choice(same)]))
    return copied


def file_with_digest(fields: Mapping[str, Any]) -> bytes:
    """Return the file of these fields, with the digest that belongs to them if they have one."""
    try:
        digest = digest_of(msgspec.convert(fields, RunRecord))
    except (msgspec.MsgspecError, ValueError, OverflowError):
        digest = "0" * 64
    head = {"kind": KIND.name, "format": KIND.format, "grb_check": "0.1.0", "digest": digest}
    return json.dumps({**head, **fields}).encode()


def damaged(raw: bytes, draw: Random) -> bytes:
    """Return the bytes with a few of them replaced, removed or added in one place."""
    at, length = draw.randrange(len(raw)), draw.choice((0, 1, 1, 2, 40, len(raw)))
    added = draw.choice((b"", b"\xff", b'"', b"0", b"9", b"}", draw.randbytes(3), raw[:50]))
    return raw[:at] + added + raw[at + length :]


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every place of the tree: the object or array, and the key or index in it."""
    entries: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        entries = list(value.items())
    elif isinstance(value, list):
        entries = list(enumerate(value))
    return [place for key, inner in entries for place in ((value, key), *_places(inner))]
