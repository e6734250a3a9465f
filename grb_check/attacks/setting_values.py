"""Values of settings in names of attacks: read and written."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin

from grb_check.errors import UsageError

_DESCRIPTIONS: Final[Mapping[Any, str]] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    NoneType: "none",
    str: "a word of letters, digits, '.', '_' and '-'",
}
_VALUE: Final = re.compile(r"[A-Za-z0-9._-]+(,[A-Za-z0-9._-]+)*")


def _read_value(text: str, kind: Any, where: str) -> object:
    """Parse text as the first type that fits."""
    options = list(get_args(kind)) if get_origin(kind) in (Union, UnionType) else [kind]
    options.sort(key=lambda option: (option is not NoneType, option is str))
    if _VALUE.fullmatch(text):
        for option in options:
            try:
                return _read_as(text, option)
            except ValueError:
                continue
    allowed = " or ".join(map(_describe, options))
    several = "; no attack has the name after the comma" if "," in text else ""
    raise UsageError(f"{where}: {text!r} is not {allowed}{several}")


def _read_as(text: str, kind: Any) -> object:
    if kind in _READERS:
        return _READERS[kind](text)
    arguments = get_args(kind)
    if get_origin(kind) is Literal:
        return {str(choice): choice for choice in arguments}[_one_of(text, arguments)]
    if get_origin(kind) is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return tuple(_read_as(piece, arguments[0]) for piece in text.split(","))
    raise ValueError(text)


def _describe(kind: Any) -> str:
    if kind in _READERS:
        return _DESCRIPTIONS[kind]
    arguments = get_args(kind)
    if get_origin(kind) is Literal:
        return " or ".join(map(repr, arguments))
    if get_origin(kind) is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return f"a list with commas, each {_describe(arguments[0])}"
    return f"a setting that names can set (its type is {kind})"


def _write_value(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(_write_value, value))
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return str(value).replace("+", "")  # 1e+16


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _one_of(text: str, choices: Sequence[object]) -> str:
    if text not in map(str, choices):
        raise ValueError(text)
    return text


def _word(text: str) -> str:
    if "," in text:
        raise ValueError(text)
    return text


def _truth(text: str) -> bool:
    return _one_of(text.lower(), ("false", "true")) == "true"


def _nothing(text: str) -> None:
    _one_of(text.lower(), ("none",))


_READERS: Final[Mapping[Any, Callable[[str], object]]] = {
    int: int,
    float: _finite,
    bool: _truth,
    NoneType: _nothing,
    str: _word,
}
