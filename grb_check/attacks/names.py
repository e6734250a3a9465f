"""Names of attacks with modifiers, such as `tdgia+hao+iterations=200`, and their canonical form.

A name is `NAME(+MODIFIER)*`; a modifier is a preset or `SETTING=VALUE`, where a setting is a field
of the attack's frozen dataclass. The modifiers `gang=SIZE`, `local=SHARE` and `budget=SHARE` belong
to the harness and come last: every attack takes the last one, attacks on edges take all, those that
inject nodes all but `local`. This module does not import torch.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Mapping
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any, Final, NamedTuple, TypeVar, get_type_hints

from grb_check.attacks.setting_values import _read_value, _write_value
from grb_check.errors import UsageError, unknown
from grb_check.user_code.calls import short_traceback

Settings = Mapping[str, object]
AnyAttack = TypeVar("AnyAttack")

SURROGATES: Final = ("gcn", "gcn_ln", "gin")
PRESETS: Final[Mapping[str, tuple[str, object]]] = {
    "white-box": ("knowledge", "white-box"),
    "black-box": ("knowledge", "black-box"),
    "hao": ("harmony", 1.0),
    "ensemble": ("surrogates", SURROGATES),
    "polish": ("polish", 1000),
}
# Datasets may have their own defaults for these (GRB, Table 12), so that a name which sets them to
# the attack's default differs from one which does not set them.
PER_DATASET: Final = ("iterations", "step_size")
IDENTITY: Final = ("name", "scenario", "version")
WORST: Final = "worst"  # the meta-attack of each scenario: the strongest of its other attacks
# These belong to the harness: a field of such a name is not a setting.
BUDGET: Final = "budget"
LOCAL_BUDGET: Final = "local"
GANG: Final = "gang"
FLIPS_OF_MEMBER: Final = 3  # if a name gives none
MOST_MEMBERS: Final = 1_000
MOST_GANGS: Final = 5  # of a case: each is attacked on its own
MOST_HOPS: Final = 3
MOST_FLIPS: Final = 50  # for a target or a member, so that those of dense graphs take no days
LOCAL_SHARE: Final = 0.5  # of LR-BCD (Gosch et al. 2023)
OF_THE_HARNESS: Final = (GANG, LOCAL_BUDGET, BUDGET)
NOT_EXCHANGED: Final = "links were not exchanged"  # AGIA's note that it is weaker than it could be
HELD_BACK: Final = "less of the budget is stronger"  # a search's note that it used less

# Part of a value, or the last part of a threshold's pattern.
_GANG: Final = re.compile(r"([0-9]{1,5})(?:x([0-9]{1,5})(?:x([0-9]{1,5}))?)?")
_WORD: Final = re.compile(r"[A-Za-z0-9._-]*\s*(=|$)")


class Gang(NamedTuple):
    """Targets that attack together, by changed edges of their own or by new nodes.

    Attributes:
        size: number of members; of new nodes, too, where an attack injects them.
        edges: most changed edges at each member, or most edges of each new node.
        hops: new nodes may also be linked to nodes that are at most so many hops from a member.
    """

    size: int
    edges: int
    hops: int = 0

    @property
    def text(self) -> str:
        """The value of the modifier, without hops if there are none."""
        return "x".join(map(str, self if self.hops else self[:2]))


def base_name(name: str) -> str:
    """Return a name without its modifiers."""
    return name.partition("+")[0]


def split_budget(name: str) -> tuple[str, float | None]:
    """Return a name without its budget, and the budget, None if the name has none.

    >>> split_budget("prbcd+budget=5%+black-box")
    ('prbcd+black-box', 0.05)

    Raises:
        UsageError: the name has two budgets, or one that is not a share above 0 and at most 1.
    """
    return _split_share(name, BUDGET)


def split_local_budget(name: str) -> tuple[str, float | None]:
    """Return a name without its local budget, and the local budget, as `split_budget`."""
    return _split_share(name, LOCAL_BUDGET)


def split_gang(name: str) -> tuple[str, Gang | None]:
    """Return a name without its gang, and the gang, None if the name has none.

    >>> split_gang("prbcd+gang=10+black-box")
    ('prbcd+black-box', Gang(size=10, edges=3, hops=0))

    Raises:
        UsageError: the name has two gangs, or one that is not `SIZE`, `SIZExEDGES` or
            `SIZExEDGESxHOPS`.
    """
    plain, text = _split_modifier(name, GANG)
    return plain, None if text is None else _read_gang(text, base_name(name))


def with_gang(name: str, gang: Gang | None) -> str:
    """Append that gang to a name without budgets; None leaves the name as it is."""
    return name if gang is None else f"{name}+{GANG}={gang.text}"


def without_budgets(name: str) -> str:
    """Return a name without its gang, its budget and its local budget."""
    return split_gang(split_local_budget(split_budget(name)[0])[0])[0]


def with_budget(name: str, budget: float | None) -> str:
    """Append that budget to a name; None leaves the name as it is."""
    return name if budget is None else f"{name}+{BUDGET}={_write_value(budget)}"


def with_local_budget(name: str, local_budget: float | None) -> str:
    """Append that local budget to a name, before its budget; None leaves the name as it is."""
    if local_budget is None:
        return name
    plain, budget = split_budget(name)
    return with_budget(f"{plain}+{LOCAL_BUDGET}={_write_value(local_budget)}", budget)


def with_budgets_of(name: str, other: str) -> str:
    """Return a name with the budgets of another name in place of its own."""
    plain, budget = split_budget(other)
    plain, local_budget = split_local_budget(plain)
    result = with_gang(without_budgets(name), split_gang(plain)[1])
    return with_budget(with_local_budget(result, local_budget), budget)


def read_budget(text: str, where: str) -> float:
    """Parse a budget, a share such as `0.05` or `5%`.

    Raises:
        UsageError: it is not a number above 0 and at most 1.
    """
    number = text.strip()
    whole = 100 if number.endswith("%") else 1
    digits = number.removesuffix("%")
    try:
        # A float first: an exponent of many digits would fill the memory with a fraction.
        is_share = "/" not in digits and 0.0 < float(digits) <= whole
        value = float(Fraction(digits) / whole) if is_share else math.nan
    except (ValueError, OverflowError):
        value = math.nan
    if not 0.0 < value <= 1.0:
        raise UsageError(
            f"{where}: {text!r} is not a budget; give a share above 0 and at most 1, such as 0.05 "
            f"or 5%"
        )
    return value


def check_surrogates(kinds: object) -> None:
    """Check that a setting names surrogates.

    Raises:
        UsageError: it names none, one twice, or an unknown one.
    """
    if not isinstance(kinds, tuple) or not kinds or len(set(kinds)) < len(kinds):
        raise UsageError(
            f"surrogates is {kinds!r}; it must be a tuple of {', '.join(SURROGATES)}, each at most "
            f"once"
        )
    for kind in kinds:
        if kind not in SURROGATES:
            raise unknown("surrogate", str(kind), SURROGATES)


def split_names(text: str, names: Container[str]) -> list[str]:
    """Split a list at its commas.

    A comma inside the value of a setting is part of the value, unless the name of an attack
    follows.

    >>> split_names("agia+surrogates=gcn,gin+hao, pgd+iterations=9,rnd", {"pgd", "rnd"})
    ['agia+surrogates=gcn,gin+hao', 'pgd+iterations=9', 'rnd']
    """
    parts: list[str] = []
    for piece in map(str.strip, text.split(",")):
        word = base_name(piece)
        if parts and _in_a_value(parts[-1]) and _WORD.match(word) and word not in names:
            parts[-1] += f",{piece}"
        else:
            parts.append(piece)
    return parts


def read_modifiers(attack: object, name: str, label: str) -> dict[str, object]:
    """Return the settings that the modifiers of a name set.

    Args:
        attack: its fields are the settings.
        name: with or without modifiers.
        label: name of the attack in messages.

    Raises:
        UsageError: a modifier is unknown, a value has another type, or a setting is given twice.
    """
    modifiers = name.split("+")[1:]
    types = _types(attack)
    if modifiers and not types:
        reason = "" if _is_frozen(attack) else ", because its class is not a frozen dataclass"
        raise UsageError(f"attack {label} takes no modifiers{reason}; got {'+'.join(modifiers)!r}")
    settings: dict[str, object] = {}
    for modifier in modifiers:
        setting, value = _read_modifier(modifier, types, label)
        if setting in settings:
            raise UsageError(f"attack {label}: {setting} is given twice in {name!r}; give it once")
        settings[setting] = value
    return settings


def write_modifiers(attack: object, settings: Settings) -> str:
    """Write settings as `+MODIFIER...`, in the order of the fields; equal settings, equal text.

    Settings that equal the attack's default are left out, unless datasets may have another default.
    """
    words = [
        _write_modifier(setting, settings[setting])
        for setting in _types(attack)
        if setting in settings
        and (setting in PER_DATASET or settings[setting] != getattr(attack, setting))
    ]
    return "".join(f"+{word}" for word in words)


def with_settings(attack: AnyAttack, settings: Settings, label: str) -> AnyAttack:
    """Return the attack with other settings.

    Raises:
        UsageError: the attack rejects a value.
    """
    if not settings:
        return attack
    try:
        return replace(attack, **settings)  # type: ignore[type-var]
    except UsageError as error:
        raise UsageError(f"attack {label}: {error}") from None
    except (Exception, SystemExit) as error:
        raise UsageError(f"attack {label}: {short_traceback(error)}") from error


def has_setting(attack: object, setting: str) -> bool:
    """Whether a name of the attack can set it."""
    return setting in _types(attack)


def _split_share(name: str, word: str) -> tuple[str, float | None]:
    plain, text = _split_modifier(name, word)
    return plain, None if text is None else read_budget(text, f"attack {base_name(name)}: {word}")


def _split_modifier(name: str, word: str) -> tuple[str, str | None]:
    """Return a name without the modifier of that word, and its value; None for none."""
    base, *modifiers = name.split("+")
    texts = [modifier for modifier in modifiers if modifier.partition("=")[0].strip() == word]
    if not texts:
        return name, None
    if len(texts) > 1:
        raise UsageError(f"attack {base}: {word} is given twice in {name!r}; give it once")
    rest = [modifier for modifier in modifiers if modifier is not texts[0]]
    return "+".join([base, *rest]), texts[0].partition("=")[2]


def _read_gang(text: str, base: str) -> Gang:
    match = _GANG.fullmatch(text.strip())
    size, edges, hops = match.groups() if match else ("0", None, None)
    gang = Gang(int(size), int(edges or FLIPS_OF_MEMBER), int(hops or 0))
    if not (
        1 <= gang.size <= MOST_MEMBERS and 1 <= gang.edges <= MOST_FLIPS and gang.hops <= MOST_HOPS
    ):
        raise UsageError(
            f"attack {base}: {GANG}={text} is no gang; give the number of its members, at most "
            f"{MOST_MEMBERS:,}, and the edges of each, at most {MOST_FLIPS}, as in "
            f"{GANG}=10x{FLIPS_OF_MEMBER}; new nodes may be linked within some hops of a member, "
            f"at most {MOST_HOPS}, as in {GANG}=10x{FLIPS_OF_MEMBER}x1"
        )
    return gang


def _in_a_value(text: str) -> bool:
    """Whether text ends inside `+SETTING=VALUE`; the second `=` of a threshold ends the value."""
    setting, _, _ = text.rpartition("+")[2].partition("=")
    is_setting = setting.strip().isidentifier() and setting.strip() not in PRESETS
    return "+" in text and is_setting and text.rpartition("+")[2].count("=") == 1


def _is_frozen(attack: object) -> bool:
    parameters = getattr(type(attack), "__dataclass_params__", None)
    return parameters is not None and bool(parameters.frozen)


def _types(attack: object) -> dict[str, Any]:
    """Return setting -> type, in the order of the fields; empty unless a frozen dataclass."""
    if not _is_frozen(attack):
        return {}
    kind: Any = type(attack)
    try:
        hints = get_type_hints(kind)
    except Exception:  # a name that is only imported for type checkers
        hints = {}
    return {
        attribute.name: hints.get(attribute.name, type(getattr(attack, attribute.name)))
        for attribute in fields(kind)
        if attribute.init and attribute.name not in (*IDENTITY, *OF_THE_HARNESS)
    }


def _read_modifier(modifier: str, types: Mapping[str, Any], label: str) -> tuple[str, object]:
    presets = [name for name, (setting, _) in PRESETS.items() if setting in types]
    if modifier in presets:
        return PRESETS[modifier]
    setting, equals, text = (part.strip() for part in modifier.partition("="))
    if not equals or setting not in types:
        known = [*presets, *(f"{option}=VALUE" for option in (*types, *OF_THE_HARNESS))]
        raise unknown(f"modifier of attack {label}", modifier, known)
    return setting, _read_value(text, types[setting], f"attack {label}: {setting}={text}")


def _write_modifier(setting: str, value: object) -> str:
    for preset, (field, preset_value) in PRESETS.items():
        if (setting, value) == (field, preset_value):
            return preset
    return f"{setting}={_write_value(value)}"
