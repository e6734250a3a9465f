"""The plan of a leaderboard, checked before any work."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from grb_check.attacks.names import WORST, base_name
from grb_check.attacks.registry import Pair
from grb_check.cases.attack_registry import AttackRegistry
from grb_check.cases.case import DIFFICULTIES, Case, check_repeats, expand
from grb_check.cases.suites import SUITES
from grb_check.datasets import Source
from grb_check.errors import UsageError, choose
from grb_check.models.zoo import ZOO, entry
from grb_check.user_code.factories import load_factory

REPEATS: Final = 3
SUITE: Final = "paper"  # has the default attacks

# Windows reserves names of devices, whatever their suffix.
_DEVICE: Final = r"(?i:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)"
_NAME: Final = re.compile(rf"(?!{_DEVICE})[A-Za-z0-9_][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class Candidate:
    """A model of the board: its title, and `pkg.module:attr`."""

    title: str
    target: str


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Models by attacks by difficulties on one dataset.

    Attributes:
        name: of the board, and of its files.
        source: the dataset.
        candidates: the models; titles are unique.
        attacks: scenario and canonical name.
        difficulties: from easy to full.
        repeats: number of repeats, each with its own seed.
    """

    name: str
    source: Source
    candidates: tuple[Candidate, ...]
    attacks: tuple[Pair, ...]
    difficulties: tuple[str, ...]
    repeats: int

    def cases(self) -> list[Case]:
        """Return the cases of one model, in order."""
        return expand([""], [self.source.name], self.difficulties, self.attacks)


def plan(
    source: Source,
    *,
    registry: AttackRegistry,
    models: Sequence[str] = (),
    attacks: Sequence[str] = (),
    difficulties: Sequence[str] = (),
    repeats: object = REPEATS,
    name: str = "",
) -> Plan:
    """Return the plan that the options ask for.

    Args:
        source: the dataset.
        registry: resolves names of attacks.
        models: names or titles of reference models, or `[TITLE=]pkg.module:attr`, also several in
            one text, separated by commas; all reference models if empty.
        attacks: names, likewise; those of the suite `paper` if empty.
        difficulties: likewise; easy to full if empty.
        repeats: a number of at least 1.
        name: of the board; that of the dataset if empty.

    Raises:
        UsageError: names the option that is wrong, and what is allowed.
    """
    if source.of_graphs:
        raise UsageError(f"dataset {source.name!r} is a set of graphs; name a single graph")
    for option, texts in (("models", models), ("attacks", attacks), ("difficulties", difficulties)):
        if texts and not _parts(texts):
            raise UsageError(f"--{option} was given without a value; give one or leave it out")
    levels = {choose("difficulty", level, DIFFICULTIES) for level in _parts(difficulties)}
    return Plan(
        name=_checked_name(name or source.name),
        source=source,
        candidates=_candidates(_parts(models) or tuple(ZOO)),
        attacks=_attacks(registry, attacks),
        difficulties=tuple(level for level in DIFFICULTIES if not levels or level in levels),
        repeats=check_repeats("--repeats", repeats),
    )


def _candidates(names: Sequence[str]) -> tuple[Candidate, ...]:
    found = tuple(map(_candidate, names))
    titles = [each.title for each in found]
    twice = next((title for title in titles if titles.count(title) > 1), None)
    if twice is not None:
        raise UsageError(
            f"--models: two models have the title {twice!r}; name each once, and your own as "
            f"TITLE=PKG.MODULE:ATTR"
        )
    return found


def _candidate(text: str) -> Candidate:
    title, equals, target = text.rpartition("=")
    zoo = {each.target for each in ZOO.values()}
    if ":" not in target or target in zoo:
        known = entry(target)
        return Candidate(title.strip() if equals else known.title, known.target)
    load_factory(target)
    return Candidate(title.strip() or target.rpartition(":")[2].strip(), target)


def _attacks(registry: AttackRegistry, texts: Sequence[str]) -> tuple[Pair, ...]:
    names = registry.split(texts)
    if not names:
        return SUITES[SUITE].attacks
    pairs = registry.select(names)
    worst = [pair for pair in pairs if base_name(pair[1]) == WORST]
    if worst:
        raise UsageError(
            f"attack {'/'.join(worst[0])} is the strongest of others, which a leaderboard has in "
            f"their own rows; leave it out"
        )
    return pairs


def _parts(texts: Sequence[str]) -> tuple[str, ...]:
    pieces = (piece.strip() for text in texts for piece in text.split(","))
    return tuple(dict.fromkeys(piece for piece in pieces if piece))


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"--name {name!r} cannot be the name of a file; use letters, digits and any of '._-', "
            f"but no name of a device on Windows, such as con or nul"
        )
    return name
