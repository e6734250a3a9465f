"""The errors that grb_check raises on purpose.

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


class AttackError(GrbCheckError):
    """A user's attack raised, or returned something else than a perturbation."""


class BudgetError(GrbCheckError):
    """A perturbation does more than its threat allows."""


def one_line(error: BaseException) -> str:
    """What an error says, on one line; its kind if it says nothing."""
    return " ".join(str(error).split()) or type(error).__name__


def choose(what: str, given: str, allowed: Sequence[Name]) -> Name:
    """`given` if it is allowed.

    Raises:
        UsageError: names the value, the nearest spelling and all allowed values.
    """
    for name in allowed:
        if name == given:
            return name
    raise unknown(what, given, allowed)


def unknown(what: str, given: str, allowed: Sequence[str]) -> UsageError:
    """The error that `choose` raises."""
    near = difflib.get_close_matches(given, allowed, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return UsageError(f"unknown {what} {given!r}{hint}; allowed: {', '.join(allowed)}")
