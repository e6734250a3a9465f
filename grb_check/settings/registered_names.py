"""Names that plugins give to what options accept, through the hook `pytest_grb_register`.

A name stands for text, mostly an import path: what it names is imported where it is used, as if the
user had written that text.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Final, NamedTuple

from grb_check import datasets
from grb_check.attacks.user_attacks import entry_point_names
from grb_check.cases.attack_pairs import known_attacks
from grb_check.cases.attack_registry import AttackRegistry
from grb_check.cases.case import DIFFICULTIES
from grb_check.cases.suites import SUITES, Suite
from grb_check.cases.whole_numbers import check_repeats
from grb_check.datasets.source import FEATURE_RULES, SPLIT_RULES, TRAININGS
from grb_check.errors import UsageError, choose, chosen
from grb_check.models.zoo import EVERY

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_PATH: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
BUILT_IN_MODELS: Final = {model.name: model.target for model in EVERY}


class RegisteredTarget(NamedTuple):
    """The target of a name, and the plugin that registered it."""

    target: str
    plugin: str


class NamedSuite(NamedTuple):
    """A suite whose attacks are still names, and the plugin that registered it."""

    suite: Suite
    attacks: tuple[str, ...]
    plugin: str


@dataclass(frozen=True)
class RegisteredNames:
    """All names that plugins registered in a session, by kind.

    Attributes:
        attacks: import paths.
        datasets: what may follow `NAME=` in `--grb-dataset`.
        models: import paths.
        suites: suites.
    """

    attacks: dict[str, RegisteredTarget] = field(default_factory=dict)
    datasets: dict[str, RegisteredTarget] = field(default_factory=dict)
    models: dict[str, RegisteredTarget] = field(default_factory=dict)
    suites: dict[str, NamedSuite] = field(default_factory=dict)

    @property
    def dataset_texts(self) -> dict[str, str]:
        """Return for each name of a dataset the text that `datasets.find` understands."""
        return {name: f"{name}={dataset.target}" for name, dataset in self.datasets.items()}

    @property
    def model_targets(self) -> dict[str, str]:
        """Return for each name that `--grb-model` accepts its import path; built-in ones first."""
        return BUILT_IN_MODELS | {name: model.target for name, model in self.models.items()}

    def suite(self, name: str, registry: AttackRegistry) -> Suite:
        """Return the suite of that name.

        Raises:
            UsageError: one of its attacks is unknown.
        """
        if name in SUITES:
            return SUITES[name]
        suite, attacks, plugin = self.suites[name]
        try:
            return replace(
                suite, attacks=registry.select(registry.split(attacks)) if attacks else ()
            )
        except UsageError as error:
            raise UsageError(f"suite {name!r} of plugin {plugin}: {error}") from None


class Registry:
    """The argument of the hook `pytest_grb_register`, by which a plugin registers names.

    A name is of up to 100 letters, digits, '.', '_' and '-', and begins with a letter or digit. A
    target is an import path `pkg.module:attr`, or the function or class that has one.

    Args:
        plugin: name of the plugin.
        names: of all plugins; those of this plugin are added.
    """

    def __init__(self, plugin: str, names: RegisteredNames) -> None:
        self._plugin = plugin
        self._names = names

    def attack(self, name: str, target: object) -> None:
        """Give a name for `--grb-attack` to an attack, or to a class or function that makes one.

        Raises:
            UsageError: the name or the target is refused. That the attack's own name is the same is
                checked when it is imported.
        """
        taken = {*(attack_name for _, attack_name in known_attacks()), *entry_point_names()}
        self._check("attack", name, self._names.attacks, taken)
        self._names.attacks[name] = RegisteredTarget(
            _import_path("attack", name, target), self._plugin
        )

    def dataset(self, name: str, target: object) -> None:
        """Give a name for `--grb-dataset` to a function that returns a graph.

        The target may also be `pyg:CLASS/NAME`, or an absolute path of a directory or file.

        Raises:
            UsageError: the name or the target is refused.
        """
        taken = {*datasets.known_names(), *datasets.GRAPH_SETS}
        self._check("dataset", name, self._names.datasets, taken)
        if not (isinstance(target, str) and (target.startswith("pyg:") or os.path.isabs(target))):
            other = ", pyg:CLASS/NAME, or an absolute path"
            target = _import_path("dataset", name, target, other)
        self._names.datasets[name] = RegisteredTarget(target, self._plugin)

    def model(self, name: str, target: object) -> None:
        """Give a name for `--grb-model` to a factory, such as that of a defence.

        Raises:
            UsageError: the name or the target is refused.
        """
        self._check("model", name, self._names.models, BUILT_IN_MODELS)
        self._names.models[name] = RegisteredTarget(
            _import_path("model", name, target), self._plugin
        )

    def suite(
        self,
        name: str,
        *,
        datasets: Iterable[str],
        difficulties: Iterable[str],
        attacks: Iterable[str],
        repeats: int = 3,
        split: str | None = None,
        training: str = "inductive",
        features: str | None = None,
    ) -> None:
        """Give a name for `--grb-suite` to cases; the arguments are those of the options.

        A suite without attacks has no cases: its tests are those that its plugin collects.

        Raises:
            UsageError: the name or a value is refused. That datasets and attacks exist is checked
                when the suite is run.
        """
        self._check("suite", name, self._names.suites, SUITES)
        levels = _texts(name, "difficulties", difficulties)
        suite = Suite(
            name=name,
            datasets=_texts(name, "datasets", datasets),
            difficulties=tuple(choose("difficulty", level, DIFFICULTIES) for level in levels),
            attacks=(),
            repeats=check_repeats(f"suite {name!r}: repeats", repeats),
            split=chosen("split", split, SPLIT_RULES),
            training=choose("training", training, TRAININGS),
            features=chosen("features", features, FEATURE_RULES),
        )
        texts = () if attacks in ([], ()) else _texts(name, "attacks", attacks)
        named = NamedSuite(suite, texts, self._plugin)
        self._names.suites[name] = named

    def _check(
        self,
        kind: str,
        name: object,
        registered: Mapping[str, RegisteredTarget | NamedSuite],
        taken: Collection[str],
    ) -> None:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise UsageError(
                f"{kind} {name!r}: a name has up to 100 letters, digits, '.', '_' and '-', "
                f"starting with a letter or digit; choose another"
            )
        if name in taken:
            owner = "a built-in one or of an installed package"
        elif name in registered:
            owner = f"registered by plugin {registered[name].plugin}"
        else:
            return
        raise UsageError(f"{kind} {name!r}: the name is already {owner}; choose another")


def _import_path(kind: str, name: str, target: object, others: str = "") -> str:
    """Return the import path that a target is or has."""
    if isinstance(target, str):
        path = target
    else:
        path = f"{getattr(target, '__module__', '')}:{getattr(target, '__qualname__', '')}"
        if not _leads_to(path, target):
            path = ""
    if path.startswith("conftest:"):  # the name of the last conftest.py that pytest has loaded
        raise UsageError(
            f"{kind} {name!r}: {path!r} may be imported from another conftest.py; move it to a "
            f"module of its own, as my_{kind}s.py"
        )
    if not _PATH.fullmatch(path):
        raise UsageError(
            f"{kind} {name!r}: {target!r} is not an import path; give pkg.module:attr, a function "
            f"or class at the top of a module{others}"
        )
    return path


def _leads_to(path: str, target: object) -> bool:
    module, _, attribute = path.partition(":")
    try:
        return attrgetter(attribute)(sys.modules[module]) is target
    except (KeyError, AttributeError):  # made inside a function, or by a call
        return False


def _texts(suite: str, argument: str, values: object) -> tuple[str, ...]:
    listed = () if isinstance(values, str) or not isinstance(values, Iterable) else tuple(values)
    if not listed or not all(isinstance(name, str) and name.strip() for name in listed):
        raise UsageError(
            f"suite {suite!r}: {argument}={values!r} must be a list of names; give at least one"
        )
    return listed
