"""The errors that grb_check raises on purpose.

Each message names what was given, what is allowed and what to do.
"""

from __future__ import annotations


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
