"""From raw values to `RunSettings`: parse, validate, and fill in the defaults of the suite.

Imports neither torch nor numpy. A dataset is looked for, since the default suite depends on its
kind, and digests of the user's Python files are taken; what settings name is opened later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from grb_check import datasets
from grb_check.attacks.registry import Pair
from grb_check.cases.attack_pairs import at_budgets
from grb_check.cases.attack_registry import AttackRegistry
from grb_check.cases.case import DIFFICULTIES
from grb_check.cases.suites import Suite, check_graph_sets, check_poisoned_in_training, check_recall
from grb_check.cases.whole_numbers import check_repeats
from grb_check.datasets import Places
from grb_check.errors import UsageError, choose
from grb_check.gate.baselines.baseline import BASE_REPEATS
from grb_check.settings.judging import check_baseline, read_expected_failures, read_gate
from grb_check.settings.model_specs import read_models
from grb_check.settings.options import DEFAULT, OPTIONS, Option
from grb_check.settings.parsers import origins_of
from grb_check.settings.raw_values import KINDS, RawValues, read_raw
from grb_check.settings.registered_names import RegisteredNames
from grb_check.settings.selecting import (
    in_order,
    read_attacks,
    read_places,
    read_sources,
    read_suite,
    without_attacks,
)
from grb_check.settings.settings import DatasetSpec, Execution, RunSettings, spec_of


def read(
    lookup: Callable[[Option], tuple[Any, str]],
    rootdir: Path,
    cwd: Path,
    registry: AttackRegistry,
    names: RegisteredNames,
    *,
    update: bool = False,
) -> RunSettings:
    """Return the settings that raw values give.

    Args:
        lookup: raw value of an option (`MISSING` if not given) and its origin.
        rootdir: pytest's; relative paths of the ini file start there.
        cwd: working directory; relative paths of the command line start there.
        registry: resolves names of attacks.
        names: that plugins registered.
        update: whether the baseline is to be written.

    Raises:
        UsageError: names the option, the value given and what is allowed.
    """
    given = read_raw(lookup, rootdir, cwd)
    texts = [
        names.dataset_texts.get(name) or datasets.anchored(name, given.base("grb_dataset"))
        for name in given.many("grb_dataset")
    ]
    suite = names.suite(read_suite(given, texts, names), registry)
    raw = given if suite.attacks else without_attacks(given, suite.name)
    values = {option.dest: option.parse(raw, option.dest) for option in OPTIONS if option.parse}
    models = read_models(raw.many("grb_model"), raw.texts("grb_model_args"), names.model_targets)
    places = read_places(raw, suite)
    attacks = read_attacks(raw, suite, registry)
    selected = at_budgets(attacks, values["grb_budget"])
    levels = [choose("difficulty", name, DIFFICULTIES) for name in raw.many("grb_difficulty")]
    patterns = registry.split(raw.filled("grb_case"))
    origins, repeats = _repeats(raw, values, suite)
    settings = RunSettings(
        models=models,
        suite=suite.name,
        datasets=_datasets(raw, texts, places, suite, names, levels, attacks),
        difficulties=in_order(levels) or suite.difficulties,
        attacks=selected,
        selected=selected,
        budgets=values["grb_budget"],
        patterns=tuple(map(registry.canonical_pattern, patterns)),
        repeats=repeats,
        gate=read_gate(raw, values, registry),
        expected_failures=read_expected_failures(raw, registry),
        comparison_models=values["grb_rank_against"],
        data=values["grb_data"],
        download=values["grb_download"],
        split=places.split,
        training=places.training,
        features=places.features,
        metric=places.metric,
        device=values["grb_device"],
        pack=values["grb_pack"],
        baseline="" if values["grb_base"] is not None else values["grb_baseline"],
        update=update,
        margin=values["grb_margin"],
        base=values["grb_base"],
        given=raw.given,
        origins=origins,
        execution=_execution(raw, values, names, registry),
    )
    check_baseline(raw, settings)
    return settings


def _repeats(
    raw: RawValues, values: Mapping[str, Any], suite: Suite
) -> tuple[Mapping[str, str], int]:
    """The origins of all values, and the number of repeats; a baseline may have its own."""
    origins, default = dict(origins_of(raw)), suite.repeats
    if values["grb_base"] is not None:
        default = BASE_REPEATS
        if origins["grb_repeats"] == DEFAULT:
            origins["grb_repeats"] = "base"
    name = raw.name("grb_repeats")
    return origins, check_repeats(name, raw.one("grb_repeats", default))


def _datasets(
    raw: RawValues,
    texts: Sequence[str],
    places: Places,
    suite: Suite,
    names: RegisteredNames,
    levels: Sequence[str],
    attacks: Sequence[Pair],
) -> tuple[DatasetSpec, ...]:
    """The datasets that are given, or those of the suite, which can have these cases."""
    sources = read_sources(texts, places, suite, names.dataset_texts, raw.origins)
    check_graph_sets(sources, levels, attacks, named=bool(raw.texts("grb_attack")))
    check_poisoned_in_training(attacks, transductive=places.training == "transductive")
    check_recall(attacks, places.metric)
    return tuple(map(spec_of, sources))


def _execution(
    raw: RawValues, values: Mapping[str, Any], names: RegisteredNames, registry: AttackRegistry
) -> Execution:
    outputs = {kind: path for kind in KINDS if (path := values[f"grb_{kind}"])}
    execution = Execution(
        store=values["grb_store"],
        jobs=values["grb_jobs"],
        executor=values["grb_executor"],
        timeout=values["grb_timeout"],
        resume=values["grb_resume"],
        shard=values["grb_shard"],
        evidence=values["grb_evidence"],
        shrink=values["grb_shrink"],
        outputs=outputs,
        sources=values["grb_sources"],
        registered_datasets=names.dataset_texts,
        registered_attacks=registry.registered,
    )
    if execution.timeout is not None and not execution.elsewhere:
        raise UsageError(
            f"{raw.name('grb_timeout')} ends a task of a worker process, and this process measures "
            f"by itself; give --grb-jobs=1 or more as well, or --grb-executor, "
            f"or no timeout"
        )
    if raw.is_given("grb_shrink") and execution.shrink and not execution.evidence:
        raise UsageError(
            f"{raw.name('grb_shrink')} reduces the perturbations that are kept as evidence, and "
            f"--grb-evidence is off; give --grb-evidence a directory, or leave one of them out"
        )
    return execution
