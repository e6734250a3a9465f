"""Attacks with few steps, for tests of facts that do not depend on how far a search gets."""

from __future__ import annotations

from typing import Final

from grb_check.attacks.names import has_setting
from grb_check.attacks.protocol import Attack
from grb_check.attacks.registry import attack_names, is_targeted, load_attack

FEW: Final = {
    "iterations": 3,
    "training_steps": "3,5",
    "steps": 3,
    "exchanges": 3,
    "exchange_share": 0.3,
    "block_size": 40,
    "samples": 2,
    "forwards": 20,
}
INJECTION: Final = [name for scenario, name in attack_names() if scenario == "injection"]
MODIFICATION: Final = [name for scenario, name in attack_names() if scenario == "modification"]
GLOBAL: Final = [name for name in MODIFICATION if not is_targeted("modification", name)]


def quick(scenario: str, name: str, modifiers: str = "") -> Attack:
    """Return the attack of that name with few steps."""
    attack = load_attack(scenario, name)
    few = [f"+{setting}={value}" for setting, value in FEW.items() if has_setting(attack, setting)]
    return load_attack(scenario, name + "".join(few) + modifiers)
