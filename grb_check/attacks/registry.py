"""The built-in attacks, one row each, and the way from a name to an attack.

A new attack is its file and a row here. Names, suites, listings, its documentation and the tests of
every attack follow from the row and the class; one of these tests prints the line that pins the
defaults in `tests/attacks/defaults.json`. Attacks, and torch with them, are imported only when
needed.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from grb_check.attacks import names
from grb_check.attacks.scenarios import INJECTION, MODIFICATION, POISONING
from grb_check.attacks.user_attacks import UserAttack, check
from grb_check.errors import UsageError, count

if TYPE_CHECKING:
    from grb_check.attacks.protocol import Attack

Pair = tuple[str, str]  # scenario, name
MOST_POISONED: Final = 40  # single targets with a training for each, as many as in Nettack's paper
_INJECTION: Final = "grb_check.attacks.injection"
_MODIFICATION: Final = "grb_check.attacks.modification"
_POISONING: Final = "grb_check.attacks.poisoning"
_OF_GRAPHS: Final = ("graphs", "contrastive-graphs")
_CONTRASTIVE: Final = ("standard", "contrastive", "contrastive-smoke", *_OF_GRAPHS)
_TARGETED: Final = ("local", "targeted")
_SMOKE: Final = ("smoke", "standard", "paper", "graphs")
_NOTHING: Final[Mapping[str, object]] = MappingProxyType({})
_NO_ATTACKS: Final[Mapping[Pair, Attack]] = MappingProxyType({})


@dataclass(frozen=True)
class Row:
    """One built-in attack.

    Attributes:
        path: `module:class`. The class is a frozen dataclass that needs no arguments.
        tags: `smoke`, `standard`, `paper`, `local`, and those of `contrastive`: the suites that run
            the attack, see `cases.suites`. Every attack has `standard`, whose
            strongest is `worst`, or `local`, if its threat bounds the changes for single nodes, or
            `poisoning`.
            `exact`: it tries everything, and proves what stays, of nodes and of graphs of a set.
            `targeted`: each target is attacked on its own, within its own budget; with `gangs`,
            a gang together.
            `graphs`: it can attack each graph of a set within that graph's own budget, and the
            suite `graphs` runs it.
        adaptive: the suites that run its white-box form besides.
        local_budget: of its threat if its name gives none.
        seconds: of one repeat, of attackers who do not know the model and of those who do: means of
            a GCN and a GAT on synthetic-cora/full (`--grb-suite=audit --grb-repeats=1
            --grb-store=off`, one core). They tell how long a run may take. The first white-box
            injection attack of a run, most often PGD, pays for the start from blends.
        knows_model: whether its plain name stands for attackers who do.
        flips: of `targeted` attacks: the edge budget of each target; None for one by its degree.
    """

    path: str
    tags: tuple[str, ...]
    adaptive: tuple[str, ...] = ()
    local_budget: float | None = None
    seconds: tuple[float, float] = (0.1, 5.0)
    knows_model: bool = False
    flips: int | None = None


# In the order of reports and of the case matrix.
BUILT_IN: Final[Mapping[Pair, Row]] = {
    (INJECTION, "rnd"): Row(f"{_INJECTION}.rnd:InjectionRnd", _SMOKE),
    (INJECTION, "fgsm"): Row(f"{_INJECTION}.fgsm:InjectionFgsm", _SMOKE),
    (INJECTION, "pgd"): Row(
        f"{_INJECTION}.pgd:InjectionPgd",
        _SMOKE,
        ("smoke", "standard", "graphs"),
        seconds=(0.5, 5.6),
    ),
    (INJECTION, "speit"): Row(
        f"{_INJECTION}.speit:InjectionSpeit", ("standard", "paper"), seconds=(0.4, 5.0)
    ),
    (INJECTION, "tdgia"): Row(
        f"{_INJECTION}.tdgia:InjectionTdgia",
        ("standard", "paper", "graphs"),
        ("standard",),
        seconds=(0.7, 2.7),
    ),
    (INJECTION, "agia"): Row(
        f"{_INJECTION}.agia:InjectionAgia", ("standard",), ("standard",), seconds=(6.5, 18.5)
    ),
    (INJECTION, "afgsm"): Row(f"{_INJECTION}.afgsm:InjectionAfgsm", ("standard",)),
    (MODIFICATION, "rnd"): Row(f"{_MODIFICATION}.rnd:ModificationRnd", ("smoke", "standard")),
    (MODIFICATION, "dice"): Row(f"{_MODIFICATION}.dice:ModificationDice", ("smoke", "standard")),
    (MODIFICATION, "flip"): Row(f"{_MODIFICATION}.flip:ModificationFlip", ("standard",)),
    (MODIFICATION, "nea"): Row(f"{_MODIFICATION}.nea:ModificationNea", ("standard",)),
    (MODIFICATION, "stack"): Row(f"{_MODIFICATION}.stack:ModificationStack", ("standard",)),
    (MODIFICATION, "camouflage"): Row(f"{_MODIFICATION}.camouflage:ModificationCamouflage", ()),
    (MODIFICATION, "fga"): Row(f"{_MODIFICATION}.fga:ModificationFga", ("standard",)),
    (MODIFICATION, "pgd"): Row(
        f"{_MODIFICATION}.pgd:ModificationPgd", ("standard",), ("standard",), seconds=(0.1, 1.4)
    ),
    (MODIFICATION, "random-flips"): Row(
        f"{_MODIFICATION}.random_flips:ModificationRandomFlips", _CONTRASTIVE
    ),
    (MODIFICATION, "pgd-topology"): Row(
        f"{_MODIFICATION}.pgd_topology:ModificationPgdTopology",
        ("standard", *_OF_GRAPHS),
        knows_model=True,
    ),
    (MODIFICATION, "prbcd"): Row(
        f"{_MODIFICATION}.prbcd:ModificationPrbcd",
        _CONTRASTIVE,
        seconds=(5.0, 15.5),
        knows_model=True,
    ),
    (MODIFICATION, "grbcd"): Row(
        f"{_MODIFICATION}.grbcd:ModificationGrbcd",
        ("standard", "contrastive", *_OF_GRAPHS),
        seconds=(11.6, 35.0),
        knows_model=True,
    ),
    (MODIFICATION, "eva"): Row(
        f"{_MODIFICATION}.eva:ModificationEva",
        ("standard",),
        seconds=(15.0, 41.0),
        knows_model=True,
    ),
    (MODIFICATION, "lrbcd"): Row(
        f"{_MODIFICATION}.lrbcd:ModificationLrbcd",
        ("local",),
        local_budget=names.LOCAL_SHARE,
        seconds=(5.0, 15.5),
        knows_model=True,
    ),
    (MODIFICATION, "nettack"): Row(f"{_MODIFICATION}.nettack:ModificationNettack", _TARGETED),
    (MODIFICATION, "sga"): Row(f"{_MODIFICATION}.sga:ModificationSga", (*_TARGETED, "gangs")),
    (MODIFICATION, "l1d-rnd"): Row(f"{_MODIFICATION}.l1d_rnd:ModificationL1dRnd", _TARGETED),
    (MODIFICATION, "any-flip"): Row(
        f"{_MODIFICATION}.any_flip:ModificationAnyFlip",
        ("exact", "targeted"),
        seconds=(0.1, 300.0),
        knows_model=True,
        flips=1,
    ),
    (MODIFICATION, "any-removals"): Row(
        f"{_MODIFICATION}.any_removals:ModificationAnyRemovals",
        ("exact", "targeted"),
        seconds=(0.1, 300.0),
        knows_model=True,
        flips=3,
    ),
    (POISONING, "metattack"): Row(
        f"{_POISONING}.metattack:PoisoningMetattack", (POISONING,), seconds=(35.0, 35.0)
    ),
    (POISONING, "meta-prbcd"): Row(
        f"{_POISONING}.meta_prbcd:PoisoningMetaPrbcd", (POISONING,), seconds=(85.0, 85.0)
    ),
}


def source_of(scenario: str, name: str, user_attacks: Mapping[Pair, Attack] = _NO_ATTACKS) -> Pair:
    """Return the attack that makes the perturbations of a case, without modifiers.

    `poisoning/prbcd` has those of `modification/prbcd` on surrogates; if both other scenarios have
    an attack of the name, those of modification. Of users' attacks only modifications can poison,
    besides those that are made for it.
    """
    pair = (scenario, names.base_name(name))
    if scenario != POISONING or pair in BUILT_IN or pair in user_attacks:
        return pair
    edges, nodes = (MODIFICATION, pair[1]), (INJECTION, pair[1])
    known = [candidate for candidate in (edges, nodes) if candidate in BUILT_IN]
    return known[0] if known else edges if edges in user_attacks else pair


def attack_names() -> tuple[Pair, ...]:
    """Return all built-in attacks as (scenario, name), in a fixed order."""
    return tuple(BUILT_IN)


def tagged(tag: str) -> tuple[Pair, ...]:
    """Return the built-in attacks with that tag, see `Row`, in the same order.

    An attack whose white-box form is in that suite too is followed by it.
    """
    return tuple(
        (scenario, variant)
        for (scenario, name), row in BUILT_IN.items()
        for variant, tags in ((name, row.tags), (f"{name}+white-box", row.adaptive))
        if tag in tags
    )


def local_budget_of(scenario: str, name: str) -> float | None:
    """Return the local budget of the threat to which an attack belongs; None if it has none."""
    given = names.split_local_budget(names.split_budget(name)[0])[1]
    row = BUILT_IN.get(source_of(scenario, name))
    return row.local_budget if given is None and row is not None else given


def name_at_local_budget(scenario: str, name: str, local_budget: float | None) -> str:
    """Return a name with a local budget, which is not written where it is that of the attack."""
    plain, budget = names.split_budget(name)
    plain = names.split_local_budget(plain)[0]
    if local_budget == local_budget_of(scenario, plain):
        local_budget = None
    return names.with_budget(names.with_local_budget(plain, local_budget), budget)


def is_targeted(scenario: str, name: str) -> bool:
    """Whether an attack, named with or without modifiers, attacks each target on its own."""
    alone = names.split_gang(name)[1] is None
    return alone and source_of(scenario, name) in tagged("targeted")


def flips_of(scenario: str, name: str) -> int | None:
    """Return the edge budget of each target that an attack brings along; None if it has none."""
    row = BUILT_IN.get(source_of(scenario, name))
    return None if row is None else row.flips


def load_attack(
    scenario: str,
    name: str,
    defaults: Mapping[str, object] = _NOTHING,
    user_attacks: Mapping[Pair, Attack] = _NO_ATTACKS,
) -> Attack:
    """Return the attack of that name, with its modifiers applied.

    Args:
        scenario: `injection`, `modification` or `poisoning`.
        name: as in case ids: `pgd`, `pgd+iterations=200+step_size=0.05`; budgets in it are ignored,
            because they belong to the threat.
        defaults: a dataset's settings for built-in attacks that have them; the name overrides them.
        user_attacks: users' attacks by (scenario, name without modifiers).

    Raises:
        UsageError: the attack is unknown, or does not take a modifier.
    """
    name = names.without_budgets(name)
    pair = source_of(scenario, name, user_attacks)
    label = "/".join(pair)
    if scenario == POISONING:
        plain = user_attacks.get(pair) or _built_in(*pair)
        if names.has_setting(plain, "knowledge"):
            name += "+black-box"
        elif plain.knowledge == "white-box":
            raise UsageError(
                f"attack {label} knows the model, which nobody does before it is trained; give it "
                f"a field knowledge, or select it without {POISONING}/"
            )
    if pair in user_attacks:
        attack = names.with_settings(
            user_attacks[pair], names.read_modifiers(user_attacks[pair], name, label), label
        )
        check(attack, f"attack {scenario}/{name}")
        return UserAttack(attack)
    attack = _built_in(*pair)
    known = {key: value for key, value in defaults.items() if names.has_setting(attack, key)}
    return names.with_settings(attack, known | names.read_modifiers(attack, name, label), label)


def canonical_name(
    scenario: str, name: str, user_attacks: Mapping[Pair, Attack] = _NO_ATTACKS
) -> str:
    """Return the canonical form of a name: modifiers in the order of the fields, without defaults.

    >>> canonical_name("injection", "pgd+budget=.1+iterations=0200+objective=tanh_margin")
    'pgd+iterations=200+budget=0.1'

    The attack is imported only if the name has modifiers other than budgets.

    Raises:
        UsageError: as `load_attack`, `worst` is given a modifier, an injection a local budget, or
            an attack on single targets a budget of the whole graph.
    """
    plain = names.without_budgets(name)
    base = names.base_name(plain)
    pair = source_of(scenario, base, user_attacks)
    if scenario == POISONING:
        _check_poisoning(base, plain)
    if pair[0] == INJECTION and names.split_local_budget(name)[1] is not None:
        raise UsageError(
            f"attack {scenario}/{base} takes no {names.LOCAL_BUDGET}=SHARE, which bounds the edges "
            f"that change at each existing node; give it to attacks on edges"
        )
    if names.split_gang(name)[1] is not None:
        _check_gang(scenario, base, name)
    own, flips = _own_budget(name), flips_of(scenario, base)
    if own is not None and flips is not None:
        raise UsageError(
            f"attack {scenario}/{base} takes no {own}: each target has a budget of "
            f"{count(flips, 'changed edge')}; leave it out"
        )
    if is_targeted(scenario, base) and names.split_budget(name)[1] is not None:
        raise UsageError(
            f"attack {scenario}/{base} takes no {names.BUDGET}, because it attacks each target on "
            f"its own, with a budget of the target's; give {names.LOCAL_BUDGET}=SHARE of its "
            f"degree, or select attacks on all targets together"
        )
    local_budget = names.split_local_budget(names.split_budget(name)[0])[1]
    name = name_at_local_budget(scenario, name, local_budget)
    if base == plain:
        return names.with_budgets_of(plain, name)
    if base == names.WORST:
        raise UsageError(
            f"attack {scenario}/{base} only takes the modifiers {names.BUDGET}=SHARE and "
            f"{names.LOCAL_BUDGET}=SHARE, because it is "
            f"the strongest of the other attacks; got {plain[len(base) + 1 :]!r}; give it to those "
            f"attacks: --grb-attack=NAME+MODIFIER,{base}"
        )
    load_attack(scenario, plain, user_attacks=user_attacks)  # raises if the attack rejects a value
    attack = user_attacks.get(pair) or _built_in(*pair)
    settings = names.read_modifiers(attack, plain, f"{scenario}/{base}")
    return names.with_budgets_of(f"{base}{names.write_modifiers(attack, settings)}", name)


def _own_budget(name: str) -> str | None:
    """Return the modifier that gives a budget, if a name has one."""
    plain, budget = names.split_budget(name)
    if budget is not None:
        return f"{names.BUDGET}=SHARE"
    return None if names.split_local_budget(plain)[1] is None else f"{names.LOCAL_BUDGET}=SHARE"


def _check_gang(scenario: str, base: str, name: str) -> None:
    """Refuse a gang of attacks that do not attack all targets together by edges or new nodes.

    Raises:
        UsageError: says what the attack does, or has besides.
    """
    label, other = f"attack {scenario}/{base} takes no {names.GANG}=SIZE", _own_budget(name)
    if other is not None:
        raise UsageError(f"{label} beside {other}: each member has a budget; leave one out")
    gang, row = names.split_gang(name)[1], BUILT_IN.get((scenario, base))
    if scenario not in (MODIFICATION, INJECTION) or base == names.WORST:
        reason = "because gangs attack after the training, each with one attack"
    elif is_targeted(scenario, base) and row is not None and "gangs" not in row.tags:
        reason = "because it attacks each target on its own"
    elif row is not None and row.local_budget is not None:
        reason = "because it has budgets for nodes"
    elif gang is not None and gang.hops and scenario == MODIFICATION:
        plain = f"{names.GANG}={gang.size}x{gang.edges}"
        raise UsageError(
            f"attack {scenario}/{base} takes no hops, as in {names.GANG}={gang.text}: each changed "
            f"edge has a member as one end and any node as the other; give {plain}, or hops to "
            f"attacks of {INJECTION}"
        )
    else:
        return
    raise UsageError(
        f"{label}, {reason}; give it to other attacks of {MODIFICATION} or {INJECTION}, as in "
        f"{MODIFICATION}/prbcd+{names.GANG}=10x{names.FLIPS_OF_MEMBER}"
    )


def _check_poisoning(base: str, plain: str) -> None:
    known = {"white-box", "black-box"} & {modifier.strip() for modifier in plain.split("+")[1:]}
    if known or "knowledge=" in plain:
        raise UsageError(
            f"attack {POISONING}/{base} takes no white-box or black-box, because it comes before "
            f"the model is trained: nobody knows it yet"
        )


def describe(attack: Attack) -> str | None:
    """Return name, version and settings in one line, as written to disk.

    A built-in attack is named as in case ids, independently of where its code lies, with the
    settings that differ from the defaults of its version: `injection/pgd v2 (iterations=200)`; with
    `polish` also the version of that search. A
    user's attack is named by its module and class, with all settings.

    Returns:
        None for a user's attack that has no `version`, is not a dataclass, or has settings other
        than numbers, strings, booleans, None and tuples of them: a change of its output could go
        unnoticed, so that it is never stored.
    """
    plain = attack.attack if isinstance(attack, UserAttack) else attack
    version = getattr(plain, "version", None)
    if version is None or not is_dataclass(plain):
        return None
    values = {attribute.name: getattr(plain, attribute.name) for attribute in fields(plain)}
    if not all(map(_is_plain, values.values())):
        return None
    kind = type(plain)
    pair = (plain.scenario, plain.name)
    is_built_in = pair in BUILT_IN and kind is _class_of(*pair)
    if is_built_in or kind.__module__.startswith("grb_check."):  # or of a pack
        name = "/".join(pair)
        usual = {attribute.name: attribute.default for attribute in fields(plain)} | {
            "name": plain.name
        }
        values = {key: value for key, value in values.items() if value != usual[key]}
        if "polish" in values:
            from grb_check.attacks.modification.shared.answer_search import VERSION  # needs torch

            values["search"] = VERSION
    else:
        name = f"{kind.__module__}:{kind.__qualname__}"
    settings = ", ".join(f"{key}={value!r}" for key, value in values.items())
    return f"{name} v{version} ({settings})" if settings else f"{name} v{version}"


def _built_in(scenario: str, name: str) -> Attack:
    attack: Attack = _class_of(scenario, name)()
    return attack


def _class_of(scenario: str, name: str) -> type[Attack]:
    row = BUILT_IN.get((scenario, name))
    if row is None:
        known = ", ".join("/".join(pair) for pair in BUILT_IN)
        raise UsageError(f"unknown attack {scenario}/{name}; allowed: {known}")
    module, attribute = row.path.split(":")
    kind: type[Attack] = getattr(importlib.import_module(module), attribute)
    return kind


def _is_plain(value: object) -> bool:
    """Whether the repr of a value identifies it."""
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or type(value) in (bool, int, float, str)
