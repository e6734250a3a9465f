"""The attacks, from their classes."""

from __future__ import annotations

import re
from dataclasses import MISSING, Field, fields
from typing import Any, Final

from markdown_text import codes, described, entries, in_cell, table
from tables import suites_of

from grb_check.attacks.injection.shared.feature_search import (
    AscentSettings,
    FeatureSearchSettings,
)
from grb_check.attacks.modification.prbcd import ModificationPrbcd
from grb_check.attacks.modification.shared.edge_search import EdgeSearchSettings
from grb_check.attacks.names import PRESETS
from grb_check.attacks.registry import BUILT_IN, load_attack
from grb_check.attacks.setting_values import _write_value

# Classes whose docstrings have what those of attacks refer to.
SHARED: Final = {
    each.__name__: each
    for each in (AscentSettings, FeatureSearchSettings, EdgeSearchSettings, ModificationPrbcd)
}
ELSEWHERE: Final = re.compile(r"^see\s+`(?:\w+\.)?(\w+)`")


def attack_overview() -> str:
    """Return one row for each attack."""
    rows = []
    for scenario, name in BUILT_IN:
        attack = load_attack(scenario, name)
        first, _ = described(type(attack))
        link = f"[`{scenario}/{name}`](#{scenario}{name})"
        rows.append((link, attack.knowledge, first, codes(suites_of(scenario, name))))
    return table(("attack", "knowledge", "", "suites"), rows)


def attacks() -> str:
    """Return a section for each attack: its source, what it does, and its settings."""
    return "\n".join(
        attack_text(f"{scenario}/{name}", type(load_attack(scenario, name)))
        for scenario, name in BUILT_IN
    )


def attack_text(name: str, kind: type) -> str:
    """Return the section of one attack."""
    first, rest = described(kind)
    about = "\n\n".join(filter(None, [f"## `{name}`", first, rest]))
    rows = [
        (f"`{each.name}`", f"`{_default(each)}`", in_cell(meaning(kind, each.name)))
        for each in fields(kind)
    ]
    settings = f"\n\n{table(('setting', 'default', ''), rows)}" if rows else "\n"
    return about + settings


def meaning(kind: type, name: str) -> str:
    """Return what a setting means, from the docstring of its class or of the one named there."""
    text = entries(kind, "Args").get(name, "")
    found = ELSEWHERE.match(text)
    if found is None or found[1] not in SHARED:
        return text
    other = SHARED[found[1]]
    if not getattr(other, "_is_protocol", False):
        return meaning(other, name)
    parts = (entries(each, "Attributes") for each in other.__mro__)
    return next(part[name] for part in parts if name in part)


def _default(setting: Field[Any]) -> str:
    """Return a default as the name of a case has it."""
    made = setting.default_factory is not MISSING
    return _write_value(setting.default_factory() if made else setting.default)


def modifiers() -> str:
    """Return the modifiers that stand for a setting."""
    rows = [
        (f"`+{name}`", f"`+{key}={_write_value(value)}`") for name, (key, value) in PRESETS.items()
    ]
    return table(("modifier", "setting"), rows)
