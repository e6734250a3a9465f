"""Options and ini values, read once into one frozen `Settings`. Imports neither torch nor numpy."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from grb_check import datasets
from grb_check.attacks.names import read_budget
from grb_check.attacks.registry import Pair
from grb_check.cases.attack_registry import Roster
from grb_check.cases.case import (
    DIFFICULTIES,
    SCENARIOS,
    Case,
    NodeId,
    at_budgets,
    attack_order,
    check_repeats,
    expand,
    known_attacks,
    select,
)
from grb_check.cases.shards import Shard, parse_shard
from grb_check.cases.suites import FOR_GRAPHS, SUITES, Suite, check_graph_sets
from grb_check.datasets import Places, Source
from grb_check.datasets.download.sources import named_sources
from grb_check.datasets.places import FEATURE_RULES, SPLIT_RULES, TRAININGS
from grb_check.errors import UsageError, choose, unknown
from grb_check.files.whole import check_writable
from grb_check.gate.baselines.baseline import LOSS_MARGIN, Baseline, open_baseline
from grb_check.gate.limits import Gate, Threshold, check_patterns, parse_fraction, parse_threshold
from grb_check.gate.rank_limits import RankLimit, parse_rank_limit
from grb_check.ranking.comparison_models import ComparisonModels, read_comparison_models
from grb_check.settings.model_specs import ModelSpec, read_models
from grb_check.settings.option_table import Option
from grb_check.settings.options import COMMAND_LINE, DEFAULT, INI, UPDATE_FLAG
from grb_check.settings.raw_values import RawValues, read_raw
from grb_check.settings.report_paths import Outputs, read_outputs

STORE_VARIABLE: Final = "GRB_CHECK_STORE"
REFERENCE: Final = "reference"  # the reference GCN, for --grb-delta-to


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
    outputs: Outputs
    origins: Mapping[str, str]
    budgets: tuple[float, ...] = ()
    comparison_models: ComparisonModels = field(default_factory=ComparisonModels)
    rank_limits: tuple[RankLimit, ...] = ()
    delta_to: str = ""  # label of a model; empty for the reference GCN
    baseline: Baseline | None = None
    evidence: Path | None = None
    shrink: bool = False
    shard: Shard | None = None
    durations: Path | None = None

    @property
    def labels(self) -> tuple[str, ...]:
        """Model labels in case ids: none where there is one model."""
        return tuple(model.label for model in self.models) if len(self.models) > 1 else ("",)

    def cases(self) -> list[Case]:
        """The selected cases in order; of sets of graphs those that such a set can have."""
        datasets = {source.name: source.of_graphs for source in self.datasets}
        return select(self.labels, datasets, self.difficulties, self.attacks, self.patterns)

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
    lookup: Callable[[Option], tuple[Any, str]],
    rootdir: Path,
    here: Path,
    roster: Roster,
    *,
    update: bool = False,
) -> Settings:
    """Make the settings out of raw values.

    Args:
        lookup: raw value of an option (`MISSING` where not given) and its origin.
        rootdir: pytest's; relative paths of the ini file start there.
        here: the working folder; relative paths of the command line start there.
        roster: knows what names of attacks stand for.
        update: whether the baseline is to be written.

    Raises:
        UsageError: names the option, the value given and what is allowed.
    """
    raw = read_raw(lookup, rootdir, here)
    names = [datasets.anchored(name, raw.base("grb_dataset")) for name in raw.many("grb_dataset")]
    suite_name, suite = _suite(raw, names)
    places = read_places(raw, suite)
    scenarios = [choose("scenario", name, SCENARIOS) for name in raw.many("grb_scenario")]
    levels = {choose("difficulty", name, DIFFICULTIES) for name in raw.many("grb_difficulty")}
    budgets = sorted({read_budget(text, "--grb-budget") for text in raw.many("grb_budget")})
    asked = roster.split(raw.filled("grb_attack"))
    attacks = (
        roster.select(asked, scenarios or SCENARIOS)
        if asked
        else _attacks(suite, suite_name, scenarios)
    )
    patterns = roster.split(raw.filled("grb_case"))
    models = read_models(raw.many("grb_model"), raw.texts("grb_model_args"))
    sources = _sources(names or suite.datasets, places, suite_name if not names else "")
    check_graph_sets(sources, levels, attacks, named=bool(asked))
    shard = _shard(raw)
    baseline = _baseline(raw, shard, update=update)
    repeats = suite.repeats if baseline is None else baseline.repeats
    return Settings(
        models=models,
        suite=suite_name,
        datasets=sources,
        difficulties=_in_order(DIFFICULTIES, levels) or suite.difficulties,
        attacks=at_budgets(attacks, budgets),
        patterns=tuple(map(roster.canonical_pattern, patterns)),
        repeats=check_repeats("--grb-repeats", raw.one("grb_repeats", repeats)),
        gate=_gate(raw, roster),
        places=places,
        store=_store(raw),
        device=_device(raw.one("grb_device", "auto")),
        outputs=read_outputs(raw),
        origins=raw.origins | _environment(raw.origins) | _kept(raw.origins, baseline),
        budgets=tuple(budgets),
        comparison_models=read_comparison_models(
            raw.many("grb_rank_against"), lambda text: raw.path("grb_rank_against", text)
        ),
        rank_limits=tuple(map(parse_rank_limit, raw.many("grb_min_rank"))),
        delta_to=_delta_to(raw, models),
        baseline=baseline,
        evidence=_evidence(raw),
        shrink=raw.one("grb_shrink") is True,
        shard=shard,
        durations=raw.maybe_path("grb_durations"),
    )


def read_places(raw: RawValues, suite: Suite = SUITES["smoke"]) -> Places:
    """Where datasets may come from, and how they are read.

    Args:
        suite: says how, where the user does not.

    Raises:
        UsageError: a folder is none, or a source or the split is unknown.
    """
    folders = [raw.path("grb_data", text) for text in raw.many("grb_data")]
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"--grb-data: {str(folder)!r} is no folder")
    given = raw.origins["grb_sources"] != DEFAULT
    return Places(
        folders=tuple(folders),
        download=raw.one("grb_download") is True,
        sources=named_sources(raw.texts("grb_sources") if given else None),
        split=choose("split", raw.one("grb_split", suite.split), SPLIT_RULES),
        training=choose("training", raw.one("grb_training", suite.training), TRAININGS),
        features=choose("features", raw.one("grb_features", suite.features), FEATURE_RULES),
    )


def check_thresholds(settings: Settings, roster: Roster) -> None:
    """Refuse threshold patterns that match no case of any known dataset, attack and model.

    Raises:
        UsageError: see `gates.check_patterns`.
    """
    names = [source.name for source in settings.datasets]
    known = (*datasets.known_names(), *datasets.GRAPH_SETS)
    every = [*names, *(name for name in known if name not in names)]
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


def _suite(raw: RawValues, names: Sequence[str]) -> tuple[str, Suite]:
    """The suite that is named; else the one for sets of graphs, where all datasets are such."""
    of_graphs = bool(names) and all(name in datasets.GRAPH_SETS for name in names)
    default = FOR_GRAPHS if of_graphs else "smoke"
    name = choose("suite", raw.one("grb_suite", default), tuple(SUITES))
    return name, SUITES[name]


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


def _gate(raw: RawValues, roster: Roster) -> Gate:
    def fraction(dest: str, flag: str) -> float | None:
        value = raw.one(dest)
        return None if value is None else parse_fraction(str(value), flag)

    parsed = map(parse_threshold, roster.split(raw.texts("grb_threshold")))
    return Gate(
        thresholds=tuple(
            replace(each, pattern=roster.canonical_pattern(each.pattern)) for each in parsed
        ),
        max_drop=fraction("grb_max_drop", "--grb-max-drop"),
        min_clean=fraction("grb_min_clean", "--grb-min-clean"),
        strict_diagnostics=raw.one("grb_strict_diagnostics") is True,
    )


def _delta_to(raw: RawValues, models: Sequence[ModelSpec]) -> str:
    """The label; empty for the reference GCN.

    The ini file may name a model that today's command line leaves out.
    """
    given = str(raw.one("grb_delta_to", REFERENCE)).strip()
    labels = [each.label for each in models]
    if given in labels and len(labels) > 1:
        return given
    elsewhere = raw.origins["grb_delta_to"] == INI and raw.origins["grb_model"] != INI
    if given == REFERENCE or elsewhere or not models:
        return ""
    if given in labels:
        raise UsageError(
            f"--grb-delta-to {given!r} is the only model of the run; add another --grb-model, or "
            f"leave the option out for the delta to the reference GCN"
        )
    raise unknown("model of --grb-delta-to", given, (*labels, REFERENCE))


def _store(raw: RawValues) -> Path | None:
    value = raw.one("grb_store")
    if value == "off":
        return None
    if value is not None:
        return raw.path("grb_store", value)
    return Path(os.environ.get(STORE_VARIABLE) or raw.rootdir / ".grb_check")


def _baseline(raw: RawValues, shard: Shard | None, *, update: bool) -> Baseline | None:
    path, margin = raw.maybe_path("grb_baseline"), _margin(raw)
    if path is None:
        if update:
            raise UsageError(f"{UPDATE_FLAG} needs the file to write; add --grb-baseline=FILE")
        return None
    read_outputs(raw).refuse(path, "--grb-")
    baseline = open_baseline(path, margin, update=update)
    if baseline.writes:
        check_writable("--grb-baseline", path)
        if shard is not None:
            raise UsageError(
                f"--grb-baseline {str(path)!r} would be written by part {shard} of a run alone; "
                f"let python -m grb_check merge write it, or leave --grb-shard out"
            )
    return baseline


def _kept(origins: Mapping[str, str], baseline: Baseline | None) -> dict[str, str]:
    """Where the number of repeats is from, if the baseline says it."""
    says = baseline is not None and origins["grb_repeats"] == DEFAULT
    return {"grb_repeats": "baseline"} if says else {}


def _margin(raw: RawValues) -> float:
    text = str(raw.one("grb_margin", LOSS_MARGIN)).strip()
    try:
        points = float(text)
    except ValueError:
        points = math.nan
    if not 0.0 <= points < 100.0:
        raise UsageError(
            f"--grb-margin {text!r} is no number of accuracy points; give one such as 2, from 0 on "
            f"and below 100"
        )
    return points


def _evidence(raw: RawValues) -> Path | None:
    value = raw.one("grb_evidence")
    if value == "off":
        return None
    if value is not None:
        return raw.path("grb_evidence", value)
    return raw.rootdir / ".grb_check" / "evidence"


def _shard(raw: RawValues) -> Shard | None:
    text = raw.one("grb_shard")
    return None if text is None else parse_shard(str(text))


def _environment(origins: Mapping[str, str]) -> dict[str, str]:
    from_variable = origins["grb_store"] == DEFAULT and os.environ.get(STORE_VARIABLE)
    return {"grb_store": f"${STORE_VARIABLE}"} if from_variable else {}


def _device(text: str) -> str:
    kind, _, index = text.partition(":")
    choose("device", kind, ("auto", "cpu", "cuda", "mps", "xpu"))
    if index and not index.isdecimal():
        raise UsageError(f"--grb-device {text!r}: the part after ':' is no number, as in 'cuda:0'")
    return text


def _unique(items: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(items))


def _in_order(order: Sequence[Any], chosen: set[Any]) -> tuple[Any, ...]:
    return tuple(item for item in order if item in chosen)
