"""JSON files that are read back: typed, versioned, with a digest of their content.

The content is a `msgspec.Struct`. msgspec reads strictly (no NaN, no unknown field, no coercion of
types), needs no other package, costs a few milliseconds to import, and writes the JSON schema.
"""

from __future__ import annotations

import hashlib
import json
import reprlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import msgspec

from grb_check.errors import UsageError, one_line
from grb_check.files.text import fit_all, without_mark

Content = TypeVar("Content", bound=msgspec.Struct)

_HEAD: Final = ("kind", "format", "grb_check", "digest")


@dataclass(frozen=True, kw_only=True)
class FileKind(Generic[Content]):
    """One kind of file.

    Attributes:
        name: for messages and in the file, such as `run record`.
        type: of the content; its fields must not be named as those of the head.
        format: version of the content; raised whenever its meaning changes.
        remedy: ends each error: what to do instead.
        ignored: a section for other programs that follows from the content, and is not read.
    """

    name: str
    type: type[Content]
    format: int
    remedy: str
    ignored: str = ""


def encode(
    kind: FileKind[Content], content: Content, release: str, ignored: object | None = None
) -> str:
    """Return the text of a file, indented, with a line feed at its end.

    Args:
        kind: of the file.
        content: that is written.
        release: of grb_check, which reads this format.
        ignored: the section that is not read, of builtin types.

    Raises:
        ValueError: a number is NaN or infinite, which JSON does not have.
    """
    fields: dict[str, Any] = msgspec.to_builtins(content)
    head = {"kind": kind.name, "format": kind.format, "grb_check": release}
    file = {**head, "digest": _digest(fields), **fields}
    if ignored is not None:
        file[kind.ignored] = ignored
    return json.dumps(file, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def digest_of(content: msgspec.Struct) -> str:
    """Return the SHA-256 hex digest of the content, whatever the layout of its file.

    Raises:
        ValueError: a number is NaN or infinite.
    """
    return _digest(msgspec.to_builtins(content))


def read(kind: FileKind[Content], path: Path) -> Content:
    """Return the content of a file.

    Raises:
        UsageError: it cannot be opened; or see `decode`.
    """
    name = f"{kind.name} {str(path)!r}"
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}; {kind.remedy}") from None
    return decode(kind, raw, name)


def decode(kind: FileKind[Content], raw: bytes, name: str) -> Content:
    """Return the content of the bytes of a file; a byte order mark is skipped.

    Texts are returned without control characters, see `text.fit_all`.

    Args:
        kind: that the file has to be.
        raw: the bytes.
        name: of the file, for messages.

    Raises:
        UsageError: names the file, the field, its value and what to do.
    """
    fields = _object(kind, raw, name)
    head = {key: fields.pop(key, None) for key in _HEAD}
    fields.pop(kind.ignored, None)
    _check_head(kind, head, name)
    try:
        content = msgspec.convert(fields, kind.type)
        digest = _digest(fields)
        plain = fit_all(fields)
        if plain != fields:
            content = msgspec.convert(plain, kind.type)
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as error:
        raise UsageError(f"{name} is damaged: {one_line(error)}; {kind.remedy}") from None
    if head["digest"] != digest:
        raise UsageError(
            f"{name} was edited or damaged: its content does not match its digest; {kind.remedy}"
        )
    return content


def schema(kind: FileKind[Content]) -> dict[str, Any]:
    """Return the JSON schema of a kind of file, without descriptions."""
    result: dict[str, Any] = _without_descriptions(msgspec.json.schema(kind.type))
    content = result["$defs"][kind.type.__name__]
    head = {
        "kind": {"const": kind.name},
        "format": {"const": kind.format},
        "grb_check": {"type": "string"},
        "digest": {"type": "string"},
    }
    content["properties"] = head | content["properties"]
    content["required"] = [*head, *content["required"]]
    if kind.ignored:
        content["properties"][kind.ignored] = {"type": "object"}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **result}


def _digest(fields: dict[str, Any]) -> str:
    plain = json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(plain.encode()).hexdigest()


def _without_descriptions(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: _without_descriptions(item)
            for name, item in value.items()
            if name != "description" or not isinstance(item, str)
        }
    if isinstance(value, (list, tuple)):
        return [_without_descriptions(item) for item in value]
    return value


def _object(kind: FileKind[Content], raw: bytes, name: str) -> dict[str, Any]:
    try:
        result = msgspec.json.decode(without_mark(raw))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        marks = ", or has the marks of a merge" if b"<<<<<<<" in raw else ""
        raise UsageError(
            f"{name} is not JSON, or is cut short{marks} ({one_line(error)}); {kind.remedy}"
        ) from None
    if not isinstance(result, dict) or type(result.get("format")) is not int:
        raise UsageError(f"{name} is not a {kind.name} of grb_check; {kind.remedy}")
    return result


def _check_head(kind: FileKind[Content], head: dict[str, Any], name: str) -> None:
    if head["kind"] not in (kind.name, None):
        result = reprlib.repr(head["kind"])
        raise UsageError(f"{name} has kind {result}, expected {kind.name!r}; {kind.remedy}")
    if head["format"] != kind.format:
        release = reprlib.repr(head["grb_check"])
        raise UsageError(
            f"{name} has format {reprlib.repr(head['format'])}, written by grb_check {release}; "
            f"this release reads format {kind.format}: install the release that wrote the file, "
            f"or {kind.remedy}"
        )
    if head["kind"] is None or not isinstance(head["grb_check"], str):
        raise UsageError(f"{name} is not a {kind.name} of grb_check; {kind.remedy}")
