"""The catalogue of attacks; no attack and no torch is imported before it is asked for."""

from __future__ import annotations

import importlib
from dataclasses import fields
from typing import TYPE_CHECKING, Final

from grb_check.errors import UsageError

if TYPE_CHECKING:
    from grb_check.attacks.protocol import Attack

# In the order of reports and of the case matrix.
_CATALOGUE: Final = {
    ("injection", "rnd"): "grb_check.attacks.injection.rnd:InjectionRnd",
    ("injection", "fgsm"): "grb_check.attacks.injection.fgsm:InjectionFgsm",
    ("injection", "pgd"): "grb_check.attacks.injection.pgd:InjectionPgd",
    ("modification", "rnd"): "grb_check.attacks.modification.rnd:ModificationRnd",
    ("modification", "dice"): "grb_check.attacks.modification.dice:ModificationDice",
}


def attack_names() -> tuple[tuple[str, str], ...]:
    """All attacks as (scenario, name), in a fixed order."""
    return tuple(_CATALOGUE)


def load_attack(scenario: str, name: str) -> Attack:
    """The attack with its default settings.

    Raises:
        UsageError: there is no such attack.
    """
    path = _CATALOGUE.get((scenario, name))
    if path is None:
        known = ", ".join("/".join(pair) for pair in _CATALOGUE)
        raise UsageError(f"unknown attack {scenario}/{name}; there are {known}")
    module, attribute = path.split(":")
    attack: Attack = getattr(importlib.import_module(module), attribute)()
    return attack


def describe(attack: Attack) -> str:
    """Class, version and settings in one line: the attack's part of the store's key."""
    kind = type(attack)
    settings = ", ".join(f"{f.name}={getattr(attack, f.name)!r}" for f in fields(attack))  # type: ignore[arg-type]
    return f"{kind.__module__}:{kind.__qualname__} v{attack.version} ({settings})"
