"""The options that select cases: suite, datasets and attacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from grb_check import datasets
from grb_check.attacks.names import base_name
from grb_check.attacks.registry import BUILT_IN, Pair
from grb_check.attacks.scenarios import POISONING, SCENARIOS
from grb_check.cases.attack_pairs import attack_order
from grb_check.cases.attack_registry import WILDCARDS, AttackRegistry
from grb_check.cases.case import DIFFICULTIES, Case
from grb_check.cases.node_ids import NodeId
from grb_check.cases.selection import select
from grb_check.cases.suites import FOR_GRAPHS, SUITES, Suite, check_poisoned_in_training
from grb_check.datasets import Places, Source
from grb_check.datasets.metric_names import check_metric
from grb_check.datasets.source import FEATURE_RULES, SPLIT_RULES, TRAININGS
from grb_check.errors import UsageError, choose, chosen
from grb_check.settings import parsers
from grb_check.settings.options import COMMAND_LINE, DEFAULT, tagged
from grb_check.settings.raw_values import RawValues
from grb_check.settings.registered_names import RegisteredNames
from grb_check.settings.settings import RunSettings, found_again, spec_of

_POISONING: Final = tuple(name for scenario, name in BUILT_IN if scenario == POISONING)


def without_attacks(raw: RawValues, suite: str) -> RawValues:
    """Return the values that mean something in a suite without attacks.

    The ini file may have others, for runs of other suites.

    Raises:
        UsageError: the command line has others.
    """
    dests = [option.dest for option in tagged("of attacks")]
    for dest in dests:
        if raw.is_given(dest):
            raise UsageError(
                f"{raw.name(dest)} is for attacks, and the suite {suite} has none; leave the "
                f"option out, or name another suite"
            )
    return raw.without(dests)


def read_places(raw: RawValues, suite: Suite = SUITES["smoke"]) -> Places:
    """Return where datasets may come from, and how they are read.

    Args:
        raw: values of the options.
        suite: has the defaults.

    Raises:
        UsageError: a directory does not exist, or a source or a rule is unknown.
    """
    return Places(
        folders=tuple(map(Path, parsers.folders(raw, "grb_data"))),
        download=parsers.switch(raw, "grb_download"),
        sources=parsers.download_sources(raw, "grb_sources"),
        split=chosen("split", raw.one("grb_split", suite.split), SPLIT_RULES),
        training=choose("training", raw.one("grb_training", suite.training), TRAININGS),
        features=chosen("features", raw.one("grb_features", suite.features), FEATURE_RULES),
        metric=_metric(raw, suite.metric),
    )


def _metric(raw: RawValues, usual: str | None) -> str | None:
    """Return what figures are of, with the positive class in it; `usual` is the suite's."""
    given, positive = raw.one("grb_metric", usual), parsers.class_number(raw, "grb_positive")
    if given is not None:
        return check_metric(given, positive)
    if positive is not None:
        raise UsageError(
            f"--grb-positive={positive} says of which class the recall is, and no metric is named; "
            f"name one such as --grb-metric=recall@0.01, the recall at 1 % false alarms"
        )
    return None


def read_suite(raw: RawValues, requested: Sequence[str], names: RegisteredNames) -> str:
    """Return the suite that is given; the default for sets of graphs has its own attacks.

    Args:
        raw: values of the options; if all attacks that it names are poisoning, so is the suite.
        requested: datasets that are given. Those that are a user's function are called if no suite
            is given, since that alone says whether they are sets of graphs.
        names: that plugins registered.

    Raises:
        UsageError, DataError: there is no such suite, or a user's function fails.
    """
    default = "smoke"
    attacks = raw.many("grb_attack")
    if attacks and all(
        base_name(text) in _POISONING or text.startswith(f"{POISONING}/") for text in attacks
    ):
        default = POISONING
    elif raw.one("grb_suite") is None and requested:
        places = read_places(raw)
        default = FOR_GRAPHS if all(_is_set(name, places) for name in requested) else default
    return choose("suite", raw.one("grb_suite", default), (*SUITES, *names.suites))


def _is_set(name: str, places: Places) -> bool:
    """Return whether a dataset is a set of graphs; one that is not found is refused later."""
    try:
        source = datasets.find(name, places)
    except UsageError:
        return False
    return source.of_graphs


def read_sources(
    requested: Sequence[str],
    places: Places,
    suite: Suite,
    registered: Mapping[str, str],
    origins: Mapping[str, str],
) -> tuple[Source, ...]:
    """Return where each dataset is, each once.

    Args:
        requested: datasets that are given; if none are, those of the suite are used.
        places: where to look.
        suite: in force.
        registered: what the names of plugins' datasets stand for.
        origins: of the values of options, see `by_kind`.

    Raises:
        UsageError: a dataset is not found, or two have the same name; or an option does not mean
            anything on a set of graphs among them.
    """
    try:
        names = requested or [registered.get(name, name) for name in suite.datasets]
        result = [datasets.find(name, places) for name in names]
    except UsageError as error:
        if requested:
            raise
        raise UsageError(f"suite {suite.name!r}: {error}") from None
    sources = tuple(
        dict.fromkeys(by_kind(source, origins, named=bool(requested)) for source in result)
    )
    for source in sources:
        alike = [other.given for other in sources if other.name == source.name]
        if len(alike) > 1:
            raise UsageError(
                f"two datasets have the name {source.name!r}: {', '.join(alike)}; give one of "
                f"them another with NAME=..."
            )
    return sources


def by_kind(source: Source, origins: Mapping[str, str], *, named: bool = True) -> Source:
    """Return a source without the rules of a suite that are not meant for its kind of dataset.

    What a suite says of splits and features is meant for its own graphs and those of benchmarks:
    other data of a user is read as it is. It is never meant for sets of graphs, which are always
    learnt inductively. What the user says holds.

    Args:
        source: of any dataset.
        origins: option -> where its value is from.
        named: whether the user named it, and not the suite.

    Raises:
        UsageError: the user gives a rule that means nothing on a set of graphs.
    """
    if not (source.of_graphs or (source.format.of_users and named)):
        return source
    places = source.places
    if origins["grb_split"] == DEFAULT:
        places = replace(places, split=None)
    if origins["grb_features"] == DEFAULT:
        places = replace(places, features=None)
    if origins["grb_training"] == DEFAULT and source.of_graphs:
        places = replace(places, training="inductive")
    source = replace(source, places=places)
    source.check_rules()
    return source


def read_attacks(raw: RawValues, suite: Suite, registry: AttackRegistry) -> tuple[Pair, ...]:
    """Return the attacks that are given; if none are, those of the suite.

    A pattern with wildcards selects among those of the suite.

    Raises:
        UsageError: an attack is unknown, or a pattern matches none.
    """
    requested = registry.split(raw.filled("grb_attack"))
    if not requested:
        return suite.attacks
    selected: list[Pair] = []
    for text in requested:
        if WILDCARDS & set(text):
            pattern = text if "/" in text else f"*/{text}"
            matches = [pair for pair in suite.attacks if fnmatchcase("/".join(pair), pattern)]
            if not matches:
                raise UsageError(
                    f"{raw.name('grb_attack')} {text!r} matches no attack of the suite "
                    f"{suite.name!r}, which has {', '.join(map('/'.join, suite.attacks))}; give "
                    f"another pattern or a name"
                )
            selected += matches
        else:
            selected += registry.select([text], SCENARIOS)
    return tuple(sorted(dict.fromkeys(selected), key=attack_order))


def in_order(levels: Sequence[str]) -> tuple[str, ...]:
    """Return levels of difficulty from easy to full, each once."""
    return tuple(difficulty for difficulty in DIFFICULTIES if difficulty in levels)


def cases_of(settings: RunSettings) -> list[Case]:
    """Return the selected cases in order; for sets of graphs those that such a set can have.

    Without attacks there are none, and the patterns are those of the suite's plugin.
    """
    if not settings.attacks:
        return []
    on_graphs = {spec.name: spec.of_graphs for spec in settings.datasets}
    return select(
        settings.labels, on_graphs, settings.difficulties, settings.attacks, settings.patterns
    )


def selects_now(origins: Mapping[str, str]) -> bool:
    """Whether the command line selects cases."""
    return any(origins.get(attack.dest) == COMMAND_LINE for attack in tagged("selects"))


def ranks_are_optional(origins: Mapping[str, str]) -> bool:
    """Whether the ini file asks for ranks, and the command line for cases that it may not know."""
    return origins.get("grb_rank_against") != COMMAND_LINE and selects_now(origins)


def source_of(settings: RunSettings, dataset: str) -> Source:
    """Return where the dataset of that name comes from; unselected ones are looked up."""
    for spec in settings.datasets:
        if spec.name == dataset:
            return found_again(spec, settings)
    text = settings.execution.registered_datasets.get(dataset, dataset)
    return by_kind(datasets.find(text, settings.places), settings.origins)


def widened(
    settings: RunSettings, node_ids: Sequence[NodeId], registry: AttackRegistry
) -> RunSettings:
    """Return settings under which every case that a node id names exists."""
    names = [spec.name for spec in settings.datasets]
    requested = [
        part for node_id in node_ids for part in node_id.parts if part not in settings.labels
    ]
    added = [spec_of(source_of(settings, name)) for name in requested if name not in names]
    cells = [node_id.cell.split("/") for node_id in node_ids if node_id.cell]
    levels = [choose("difficulty", cell[0], DIFFICULTIES) for cell in cells]
    attacks = [pair for cell in cells for pair in registry.select(["/".join(cell[1:])])]
    transductive = settings.training == "transductive"
    check_poisoned_in_training(attacks, transductive=transductive)
    return replace(
        settings,
        datasets=(*settings.datasets, *dict.fromkeys(added)),
        difficulties=in_order([*settings.difficulties, *levels]),
        attacks=tuple(sorted({*settings.attacks, *attacks}, key=attack_order)),
    )
