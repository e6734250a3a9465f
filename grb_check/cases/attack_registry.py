"""The attacks that a run can name: the built-in ones, and users' attacks once they are named."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from grb_check.attacks import user_attacks
from grb_check.attacks.names import WORST, base_name, split_names
from grb_check.attacks.registry import Pair, attack_names, canonical_name, source_of
from grb_check.attacks.scenarios import MODIFICATION, POISONING, SCENARIOS
from grb_check.cases.attack_pairs import attack_order, known_attacks
from grb_check.errors import UsageError, choose

if TYPE_CHECKING:
    from grb_check.attacks.protocol import Attack

WILDCARDS = frozenset("*?[")
_NOTHING: Final[Mapping[str, tuple[str, str]]] = MappingProxyType({})


class AttackRegistry:
    """Resolves names of attacks to pairs of scenario and canonical name, as in case ids.

    A name is `[SCENARIO/]NAME(+MODIFIER)*` or `pkg.module:attr(+MODIFIER)*`; `worst` is a name too.
    Plain names of built-in attacks import nothing. Users' attacks are imported when they are first
    named, and saved in `user_attacks` by scenario and name without modifiers.

    Args:
        registered: import path and plugin of the names that plugins registered.
    """

    def __init__(self, registered: Mapping[str, tuple[str, str]] = _NOTHING) -> None:
        self.user_attacks: dict[Pair, Attack] = {}
        self._registered = registered
        self._found: dict[Pair, object] = {}  # users' objects as they were given
        self._texts: dict[Pair, str] = {}  # by which they were named

    def add(self, attack: object) -> Pair:
        """Add a user's attack, given as an object, or as a class or function that makes one.

        Raises:
            UsageError: it is not an attack, or its name is taken.
        """
        label = f"attack {getattr(attack, '__name__', type(attack).__name__)}"
        return self._enter(attack, user_attacks.made(attack, label), label)

    def select(
        self, names: Iterable[str], scenarios: Sequence[str] = SCENARIOS
    ) -> tuple[Pair, ...]:
        """Return the attacks that names stand for in these scenarios, each once, in report order.

        Raises:
            UsageError: a name is wrong, or nothing is left.
        """
        names = list(names)
        if tuple(scenarios) == (POISONING,):  # full names alone stand for what is replayed
            plain = {name for name in names if not {"/", ":"} & set(base_name(name))}
            names = [f"{POISONING}/{name}" if name in plain else name for name in names]
        result = {pair for name in names for pair in self._resolve(name)}
        selected = {pair for pair in result if pair[0] in scenarios}
        if not selected:
            raise UsageError(
                f"attack {', '.join(names)} does not exist in scenario {', '.join(scenarios)}. "
                f"Allowed: {', '.join(map('/'.join, self._known()))}"
            )
        return tuple(sorted(selected, key=attack_order))

    def one(self, name: str, scenarios: Sequence[str] = SCENARIOS) -> Pair:
        """Return the only attack that a name stands for.

        Raises:
            UsageError: the name is wrong, or several scenarios have it.
        """
        pairs = self.select([name], scenarios)
        if len(pairs) > 1:
            raise UsageError(
                f"attack {name!r} is ambiguous; give one of {', '.join(map('/'.join, pairs))}"
            )
        return pairs[0]

    @property
    def named(self) -> tuple[str, ...]:
        """Names by which another process finds the users' attacks of this one."""
        return tuple(self._texts.values())

    @property
    def registered(self) -> tuple[tuple[str, str, str], ...]:
        """Name, import path and plugin of the attacks that plugins registered."""
        return tuple((name, path, plugin) for name, (path, plugin) in self._registered.items())

    def split(self, texts: Iterable[str]) -> list[str]:
        """Return the names, or patterns of case ids, in lists with commas."""
        names = {*self._spellings(), *self._offered()}
        return [part for text in texts for part in split_names(text, names) if part]

    def canonical_pattern(self, pattern: str) -> str:
        """Return a pattern of case ids with the modifiers of its attack spelled as in ids.

        Raises:
            UsageError: the attack does not take a modifier.
        """
        path, slash, name = pattern.rpartition("/")
        if "+" not in name or WILDCARDS & set(name):
            return pattern
        scenario = path.rpartition("/")[2]
        result = self.select([name], [scenario] if scenario in SCENARIOS else SCENARIOS)
        names = {attack_name for _, attack_name in result}
        return f"{path}{slash}{names.pop()}" if len(names) == 1 else pattern

    def named_in(self, pattern: str) -> tuple[Pair, ...]:
        """Return the attacks of a pattern whose last part has no wildcard and is known."""
        path, _, name = pattern.rpartition("/")
        if path.rpartition("/")[2] == POISONING:
            name = f"{POISONING}/{name}"
        known = {*self._spellings(), *self._offered()}
        return tuple(self._resolve(name)) if base_name(name) in known else ()

    def _known(self) -> tuple[Pair, ...]:
        return (*known_attacks(), *self.user_attacks)

    def _replayed(self) -> tuple[Pair, ...]:
        """Poisoning by attacks of other scenarios, and `worst`: only full names stand for them."""
        known = self._known()
        modifications = [name for kind, name in self.user_attacks if kind == MODIFICATION]
        built_in = [name for _, name in attack_names()]
        every = dict.fromkeys((POISONING, name) for name in (*built_in, *modifications, WORST))
        return tuple(pair for pair in every if pair not in known)

    def _spellings(self) -> list[str]:
        every = self._known()
        full = map("/".join, (*every, *self._replayed()))
        return [*(name for _, name in every), *full]

    def _resolve(self, name: str) -> list[Pair]:
        base = base_name(name)
        pairs = [self._from_path(base)] if ":" in base else self._named(base)
        for pair in pairs:
            source = source_of(*pair, self.user_attacks)
            if source in self.user_attacks:
                text = base if ":" in base else base.rpartition("/")[2]
                self._texts.setdefault(source, text)  # the first one imported it
        modifiers = name[len(base) :]
        canonical: list[Pair] = []
        refused: list[UsageError] = []
        for scenario, plain in pairs:
            try:
                full = canonical_name(scenario, f"{plain}{modifiers}", self.user_attacks)
                canonical.append((scenario, full))
            except UsageError as error:
                refused.append(error)
        if not canonical:  # `rnd+removal_share=0.3` stands for those that know the setting
            raise refused[-1]
        return canonical

    def _named(self, base: str) -> list[Pair]:
        """Return the pairs of `name` or `scenario/name`."""
        offered = self._offered()
        if base.rpartition("/")[2] in offered:
            self._enter_offered(base.rpartition("/")[2])
        choose("attack", base, list(dict.fromkeys([*self._spellings(), *offered])))
        matches = [pair for pair in self._known() if base in (pair[1], "/".join(pair))]
        return matches or [pair for pair in self._replayed() if base == "/".join(pair)]

    def _offered(self) -> tuple[str, ...]:
        """Names that packages and plugins offer, which are imported only when they are named."""
        return (*user_attacks.entry_point_names(), *self._registered)

    def _enter_offered(self, name: str) -> None:
        if name in self._registered:
            path, plugin = self._registered[name]
            label = f"attack {name!r} of plugin {plugin}"
            result, attack = user_attacks.registered(name, path, label)
        else:
            label = f"attack {name!r} of the entry points {user_attacks.GROUP}"
            result, attack = user_attacks.from_entry_point(name)
        self._enter(result, attack, label)

    def _from_path(self, path: str) -> Pair:
        return self._enter(*user_attacks.from_path(path), f"attack {path!r}")

    def _enter(self, user_object: object, attack: Attack, label: str) -> Pair:
        pair = (attack.scenario, attack.name)
        if pair in known_attacks() or source_of(*pair) != pair:
            built_in = "/".join(source_of(*pair))
            raise UsageError(
                f"{label} has the name of the built-in attack {built_in}; give it another"
            )
        if self._found.setdefault(pair, user_object) is not user_object:
            raise UsageError(
                f"{label} has the name of another attack of this run, {'/'.join(pair)}; give it "
                f"another"
            )
        self.user_attacks.setdefault(pair, attack)
        return pair
