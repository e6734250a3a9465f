"""Options and ini values, read once into one frozen `Settings`. Imports neither torch nor numpy."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from grb_check import datasets
from grb_check.attacks import Pair
from grb_check.attacks.naming import read_budget
from grb_check.cases import (
    DIFFICULTIES,
    SCENARIOS,
    SUITES,
    Case,
    NodeId,
    Suite,
    at_budgets,
    attack_order,
    check_repeats,
    expand,
    keep_matching,
    known_attacks,
)
from grb_check.choices import choose
from grb_check.datasets import Places, Source
from grb_check.datasets.places import SPLIT_RULES, expanded
from grb_check.datasets.sources import named_sources
from grb_check.errors import UsageError
from grb_check.factories import parse_model_args
from grb_check.gates import Gate, Threshold, check_patterns, parse_fraction, parse_threshold
from grb_check.options import COMMAND_LINE, DEFAULT, INI, MISSING, OPTIONS, Option
from grb_check.roster import Roster

STORE_VARIABLE: Final = "GRB_CHECK_STORE"
NAMING_ATTACKS: Final = ("grb_attack", "grb_case")  # options whose values may hold commas


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """A model named on the command line: `pkg.module:attr`, its arguments and its label."""

    label: str
    target: str
    args: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is in force. `origins` tells for each option where its value came from."""

    models: tuple[ModelSpec, ...]
    suite: str
    datasets: tuple[Source, ...]
    difficulties: tuple[str, ...]
    attacks: tuple[Pair, ...]  # at each of the budgets, if there are any
    patterns: tuple[str, ...]
    repeats: int
    gate: Gate
    places: Places
    store: Path | None
    device: str
    json: Path | None
    origins: Mapping[str, str]
    budgets: tuple[float, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """Model labels in case ids: none where there is one model."""
        return tuple(model.label for model in self.models) if len(self.models) > 1 else ("",)

    def cases(self) -> list[Case]:
        """The selected cases in order."""
        names = [source.name for source in self.datasets]
        return keep_matching(
            expand(self.labels, names, self.difficulties, self.attacks), self.patterns
        )

    def source(self, dataset: str) -> Source:
        """Where the dataset of that name comes from; unselected ones are looked up."""
        for source in self.datasets:
            if source.name == dataset:
                return source
        return datasets.find(dataset, self.places)

    def model(self, label: str) -> ModelSpec:
        return next((each for each in self.models if each.label == label), self.models[0])

    def for_node_ids(self, node_ids: Sequence[NodeId], roster: Roster) -> Settings:
        """These settings, widened so that every case named by a printed node id exists."""
        names = [source.name for source in self.datasets]
        wanted = [part for each in node_ids for part in each.parts if part not in self.labels]
        added = [datasets.find(name, self.places) for name in wanted if name not in names]
        cells = [each.cell.split("/") for each in node_ids if each.cell]
        levels = [choose("difficulty", cell[0], DIFFICULTIES) for cell in cells]
        attacks = [pair for cell in cells for pair in roster.select(["/".join(cell[1:])])]
        return replace(
            self,
            datasets=(*self.datasets, *_unique(added)),
            difficulties=_in_order(DIFFICULTIES, {*self.difficulties, *levels}),
            attacks=tuple(sorted({*self.attacks, *attacks}, key=attack_order)),
        )


def read(
    lookup: Callable[[Option], tuple[Any, str]], rootdir: Path, here: Path, roster: Roster
) -> Settings:
    """Make the settings out of raw values.

    Args:
        lookup: raw value of an option (`MISSING` where not given) and its origin.
        rootdir: pytest's; relative paths of the ini file start there.
        here: the working folder; relative paths of the command line start there.
        roster: knows what names of attacks stand for.

    Raises:
        UsageError: names the option, the value given and what is allowed.
    """
    raw = {option.dest: lookup(option) for option in OPTIONS}
    origins = {dest: origin for dest, (_, origin) in raw.items()}

    def many(dest: str) -> list[str]:
        value, origin = raw[dest]
        texts = [] if value is MISSING else _texts(value)
        if origin == COMMAND_LINE and not all(map(_split, texts)):
            flag = f"--{dest.replace('_', '-')}"
            raise UsageError(f"{flag} was given without a value; give one or leave it out")
        return roster.split(texts) if dest in NAMING_ATTACKS else _split(texts)

    def one(dest: str, default: Any) -> Any:
        return default if raw[dest][0] is MISSING else raw[dest][0]

    def path(dest: str, text: str) -> Path:
        return (here if origins[dest] == COMMAND_LINE else rootdir) / expanded(text)

    suite_name = choose("suite", one("grb_suite", "smoke"), tuple(SUITES))
    suite = SUITES[suite_name]
    places = _places(raw, [path("grb_data", text) for text in many("grb_data")])
    scenarios = [choose("scenario", name, SCENARIOS) for name in many("grb_scenario")]
    levels = {choose("difficulty", name, DIFFICULTIES) for name in many("grb_difficulty")}
    base = here if origins["grb_dataset"] == COMMAND_LINE else rootdir
    names = [datasets.anchored(name, base) for name in many("grb_dataset")]
    json_path = one("grb_json", None)
    budgets = sorted({read_budget(text, "--grb-budget") for text in many("grb_budget")})
    attacks = (
        roster.select(many("grb_attack"), scenarios or SCENARIOS)
        if many("grb_attack")
        else _attacks(suite, suite_name, scenarios)
    )
    return Settings(
        models=_models(many("grb_model"), _texts(one("grb_model_args", ()))),
        suite=suite_name,
        datasets=_sources(names or suite.datasets, places, suite_name if not names else ""),
        difficulties=_in_order(DIFFICULTIES, levels) or suite.difficulties,
        attacks=at_budgets(attacks, budgets),
        patterns=tuple(map(roster.canonical_pattern, many("grb_case"))),
        repeats=check_repeats("--grb-repeats", one("grb_repeats", suite.repeats)),
        gate=_gate(raw, roster),
        places=places,
        store=_store(one("grb_store", None), lambda text: path("grb_store", text), rootdir),
        device=_device(one("grb_device", "auto")),
        json=None if json_path is None else path("grb_json", json_path),
        origins=origins | _environment(origins),
        budgets=tuple(budgets),
    )


def check_thresholds(settings: Settings, roster: Roster) -> None:
    """Refuse threshold patterns that match no case of any known dataset, attack and model.

    Raises:
        UsageError: see `gates.check_patterns`.
    """
    names = [source.name for source in settings.datasets]
    every = [*names, *(name for name in datasets.known_names() if name not in names)]
    labels = ["", *(model.label for model in settings.models)]
    thresholds = settings.gate.thresholds
    if settings.origins["grb_threshold"] == INI:
        thresholds = _for_any(thresholds, settings.origins)
    named = [pair for each in thresholds for pair in roster.named_in(each.pattern)]
    attacks = _unique([*known_attacks(), *settings.attacks, *roster.own, *named])
    check_patterns(thresholds, expand(labels, every, DIFFICULTIES, attacks))


def _for_any(thresholds: Sequence[Threshold], origins: Mapping[str, str]) -> tuple[Threshold, ...]:
    """Thresholds of the ini file without what today's command line leaves out, which they may name.

    That is the dataset, or the attack, where the command line names its own.
    """
    if origins["grb_dataset"] == COMMAND_LINE:
        thresholds = [
            replace(each, pattern=f"*/{each.pattern.partition('/')[2]}")
            for each in thresholds
            if "/" in each.pattern
        ]
    if origins["grb_attack"] == COMMAND_LINE:
        thresholds = [
            replace(each, pattern=f"{each.pattern.rpartition('/')[0]}/*")
            for each in thresholds
            if "/" in each.pattern
        ]
    return tuple(thresholds)


def _attacks(suite: Suite, name: str, scenarios: Sequence[str]) -> tuple[Pair, ...]:
    kept = tuple(pair for pair in suite.attacks if not scenarios or pair[0] in scenarios)
    if not kept:
        raise UsageError(
            f"suite {name!r} has no attack of scenario {', '.join(scenarios)}; name some with "
            f"--grb-attack"
        )
    return kept


def _models(specs: Sequence[str], args: Sequence[str]) -> tuple[ModelSpec, ...]:
    if len(args) not in (0, 1, len(specs)):
        raise UsageError(
            f"--grb-model-args was given {len(args)} times for {len(specs)} models; give it once "
            f"for all or once for each"
        )
    models: list[ModelSpec] = []
    for index, spec in enumerate(specs):
        label, _, target = spec.rpartition("=")
        given = _arguments(args[index if len(args) > 1 else 0]) if args else {}
        module, colon, attribute = target.partition(":")
        if not (module and colon and attribute):
            raise UsageError(
                f"--grb-model {spec!r} has not the form 'pkg.module:attr', such as 'mypkg:build'"
            )
        label = label or _free_label(attribute, [each.label for each in models])
        if any(each.label == label for each in models):
            raise UsageError(f"--grb-model: two models have the label {label!r}; give LABEL=...")
        if set(label) & set(":/[]@* "):
            raise UsageError(f"--grb-model: label {label!r} may not contain any of ':/[]@* '")
        models.append(ModelSpec(label=label, target=target, args=given))
    return tuple(models)


def _arguments(text: str) -> dict[str, Any]:
    try:
        return parse_model_args(text)
    except UsageError as error:
        raise UsageError(f"--grb-model-args: {error}") from None


def _free_label(label: str, taken: Sequence[str]) -> str:
    numbered = (f"{label}-{number}" for number in range(2, len(taken) + 3))
    return label if label not in taken else next(name for name in numbered if name not in taken)


def _places(raw: Mapping[str, tuple[Any, str]], folders: Sequence[Path]) -> Places:
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"--grb-data: {str(folder)!r} is no folder")
    given = raw["grb_sources"][0]
    sources = named_sources(None if given is MISSING else _texts(given))
    rule = raw["grb_split"][0]
    return Places(
        folders=tuple(folders),
        download=raw["grb_download"][0] is True,
        sources=sources,
        split="grb" if rule is MISSING else choose("split", rule, SPLIT_RULES),
    )


def _sources(names: Sequence[str], places: Places, suite: str) -> tuple[Source, ...]:
    try:
        sources = _unique([datasets.find(name, places) for name in names])
    except UsageError as error:
        if not suite:
            raise
        raise UsageError(f"suite {suite!r}: {error}") from None
    for source in sources:
        if sum(each.name == source.name for each in sources) > 1:
            alike = ", ".join(each.asked for each in sources if each.name == source.name)
            raise UsageError(
                f"two datasets have the name {source.name!r}: {alike}; give one of them another "
                f"with NAME=..."
            )
    return sources


def _gate(raw: Mapping[str, tuple[Any, str]], roster: Roster) -> Gate:
    def fraction(dest: str, flag: str) -> float | None:
        value = raw[dest][0]
        return None if value is MISSING else parse_fraction(str(value), flag)

    lines = raw["grb_threshold"][0]
    thresholds: tuple[Threshold, ...] = ()
    if lines is not MISSING:
        parsed = map(parse_threshold, roster.split(_texts(lines)))
        thresholds = tuple(
            replace(each, pattern=roster.canonical_pattern(each.pattern)) for each in parsed
        )
    return Gate(
        thresholds=thresholds,
        max_drop=fraction("grb_max_drop", "--grb-max-drop"),
        min_clean=fraction("grb_min_clean", "--grb-min-clean"),
        strict_diagnostics=raw["grb_strict_diagnostics"][0] is True,
    )


def _store(value: str | None, resolve: Callable[[str], Path], rootdir: Path) -> Path | None:
    if value == "off":
        return None
    if value is not None:
        return resolve(value)
    return Path(os.environ.get(STORE_VARIABLE) or rootdir / ".grb_check")


def _environment(origins: Mapping[str, str]) -> dict[str, str]:
    from_variable = origins["grb_store"] == DEFAULT and os.environ.get(STORE_VARIABLE)
    return {"grb_store": f"${STORE_VARIABLE}"} if from_variable else {}


def _device(text: str) -> str:
    kind, _, index = text.partition(":")
    choose("device", kind, ("auto", "cpu", "cuda", "mps", "xpu"))
    if index and not index.isdecimal():
        raise UsageError(f"--grb-device {text!r}: the part after ':' is no number, as in 'cuda:0'")
    return text


def _texts(value: str | Sequence[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def _split(value: str | Sequence[str]) -> list[str]:
    pieces = [piece.strip() for text in _texts(value) for piece in text.split(",")]
    return [piece for piece in pieces if piece]


def _unique(items: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(items))


def _in_order(order: Sequence[Any], chosen: set[Any]) -> tuple[Any, ...]:
    return tuple(item for item in order if item in chosen)
