"""Checks on the settings of attacks, made when an attack is constructed.

Each raises `UsageError` with the setting's name, its value and what is allowed.
"""

from __future__ import annotations

from typing import Final, Protocol, get_args

from grb_check.attacks.names import check_surrogates
from grb_check.attacks.objectives import objective_named
from grb_check.attacks.threat import Knowledge
from grb_check.errors import UsageError, choose

RESTRICTIONS: Final = ("none", "deletions")


class ModelSettings(Protocol):
    """Settings that every attack on a model has.

    Attributes:
        surrogates: models that a black-box attack attacks together, see `names.SURROGATES`.
        knowledge: `black-box` or `white-box`.
    """

    @property
    def surrogates(self) -> tuple[str, ...]: ...
    @property
    def knowledge(self) -> Knowledge: ...


class GradientSettings(ModelSettings, Protocol):
    """Settings that every attack by gradients has.

    Attributes:
        objective: what the attack maximises, a name from `objectives.OBJECTIVES`.
    """

    @property
    def objective(self) -> str: ...


def check_gradient_settings(attack: GradientSettings) -> None:
    """Refuse an unknown objective, knowledge or surrogate, and surrogates with white-box."""
    objective_named(attack.objective)
    check_knowledge(attack)


def check_knowledge(attack: ModelSettings) -> None:
    """Refuse an unknown knowledge or surrogate, and surrogates with white-box."""
    choose("knowledge", attack.knowledge, get_args(Knowledge))
    check_surrogates(attack.surrogates)
    if attack.knowledge == "white-box" and attack.surrogates != ("gcn",):
        raise UsageError(
            f"surrogates is {attack.surrogates!r} with knowledge 'white-box', which attacks the "
            f"model itself; leave one of the two out"
        )


def check_at_least(least: int, attack: object, *settings: str) -> None:
    """Refuse numbers below `least`, and NaN."""
    for name in settings:
        value = getattr(attack, name)
        if not value >= least:
            raise UsageError(f"{name} is {value}; it must be {least} or more")


def check_positive(attack: object, *settings: str) -> None:
    """Refuse numbers that are not above 0."""
    for name in settings:
        value = getattr(attack, name)
        if not value > 0:
            raise UsageError(f"{name} is {value}; it must be above 0")


def check_seconds(seconds: float | None) -> None:
    """Raise UsageError unless a time limit is positive, or there is none."""
    if seconds is not None and not seconds > 0:
        raise UsageError(f"seconds is {seconds}; it must be above 0, or none for no end")


def check_removal_share(removal_share: float) -> None:
    """Refuse a share of removals outside [0, 1]."""
    if not 0.0 <= removal_share <= 1.0:
        raise UsageError(f"removal_share is {removal_share}; it must be from 0 to 1")


def check_restrict(restrict: str) -> None:
    """Refuse all but `none` and `deletions`."""
    choose("restrict", restrict, RESTRICTIONS)
