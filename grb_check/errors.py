"""Errors that grb_check raises on purpose.

Each message names what was given, what is allowed and what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TypeVar

Name = TypeVar("Name", bound=str)


class GrbCheckError(Exception):
    """Base of all errors that grb_check raises on purpose."""


class UsageError(GrbCheckError):
    """An option, an argument or a setting is wrong."""


class DataError(GrbCheckError):
    """A dataset cannot be found, read or trusted."""


class ModelError(GrbCheckError):
    """The model under test cannot be built, trained or called."""


class GradientError(ModelError):
    """A model gives no gradient that an attack needs."""


class UnknownReachError(ModelError):
    """It is not known which nodes a changed edge reaches, so that nothing can be proven."""


class AttackError(GrbCheckError):
    """A user's attack raised, or did not return a perturbation."""


class BudgetError(GrbCheckError):
    """A perturbation exceeds a budget of its threat."""


class PropertyError(GrbCheckError, AssertionError):
    """A model lacks a property of sound models of graphs."""


class LostError(GrbCheckError):
    """A measurement was lost with its worker."""


class StoreWarning(UserWarning):
    """A stored file was discarded, or the store cannot be used."""


def one_line(error: BaseException) -> str:
    """Return the message of an error on one line; its class if the message is empty."""
    return " ".join(str(error).split()) or type(error).__name__


def reason(message: str) -> str:
    """Return the line of a message that gives the reason; empty if the message is.

    If the user's code raised, that is the first line and the last: between them are the places.
    """
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    first = next(iter(lines), "")
    return f"{first} {lines[-1]}" if first.endswith(":") and len(lines) > 1 else first


def count(number: int, one: str, more: str = "") -> str:
    """Return `1 case`, `2 cases`; `more` is the plural if it is not `one` with an s."""
    return f"{number} {one if number == 1 else more or f'{one}s'}"


def choose(what: str, given: str, allowed: Sequence[Name]) -> Name:
    """Return `given` if it is allowed.

    Raises:
        UsageError: names the value, the nearest spelling and all allowed values.
    """
    for name in allowed:
        if name == given:
            return name
    raise unknown(what, given, allowed)


def chosen(what: str, given: str | None, allowed: Sequence[Name]) -> Name | None:
    """Return `given` if it is allowed or None; raises what `choose` raises."""
    return None if given is None else choose(what, given, allowed)


def unknown(what: str, given: str, allowed: Sequence[str]) -> UsageError:
    """Return the error that `choose` raises."""
    near = difflib.get_close_matches(given, allowed, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return UsageError(f"unknown {what} {given!r}{hint}; allowed: {', '.join(allowed)}")
