"""The options that decide what passes: limits, the baseline, the model that deltas are to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from grb_check import datasets
from grb_check.cases.attack_pairs import known_attacks
from grb_check.cases.attack_registry import AttackRegistry
from grb_check.cases.case import DIFFICULTIES, expand
from grb_check.cases.shards import Shard
from grb_check.errors import UsageError, unknown
from grb_check.files.whole import check_writable
from grb_check.gate.baselines.baseline import LOSS_MARGIN, Baseline, open_baseline
from grb_check.gate.limits import Gate, Threshold, check_patterns, parse_fraction, parse_threshold
from grb_check.settings.model_specs import ModelSpec
from grb_check.settings.option_table import COMMAND_LINE, INI, UPDATE_FLAG
from grb_check.settings.raw_values import RawValues
from grb_check.settings.report_paths import read_outputs
from grb_check.settings.settings import Settings

REFERENCE: Final = "reference"  # the reference GCN, for --grb-delta-to


def read_gate(raw: RawValues, registry: AttackRegistry) -> Gate:
    """Return the limits that the options give.

    Raises:
        UsageError: a limit is not a fraction, or an attack does not take a modifier.
    """

    def fraction(dest: str, flag: str) -> float | None:
        value = raw.one(dest)
        return None if value is None else parse_fraction(str(value), flag)

    parsed = map(parse_threshold, registry.split(raw.texts("grb_threshold")))
    return Gate(
        thresholds=tuple(
            replace(each, pattern=registry.canonical_pattern(each.pattern)) for each in parsed
        ),
        max_drop=fraction("grb_max_drop", "--grb-max-drop"),
        min_clean=fraction("grb_min_clean", "--grb-min-clean"),
        strict_diagnostics=raw.one("grb_strict_diagnostics") is True,
    )


def check_thresholds(settings: Settings, registry: AttackRegistry) -> None:
    """Refuse threshold patterns that match no case of any known dataset, attack and model.

    Raises:
        UsageError: see `gate.limits.check_patterns`.
    """
    names = [source.name for source in settings.datasets]
    every = dict.fromkeys([*names, *datasets.known_names(), *datasets.GRAPH_SETS])
    labels = ["", *(model.label for model in settings.models)]
    thresholds = settings.gate.thresholds
    if settings.origins["grb_threshold"] == INI:
        thresholds = _for_any(thresholds, settings.origins)
    named = [pair for each in thresholds for pair in registry.named_in(each.pattern)]
    attacks = dict.fromkeys([*known_attacks(), *settings.attacks, *registry.own, *named])
    check_patterns(thresholds, expand(labels, list(every), DIFFICULTIES, list(attacks)))


def _for_any(thresholds: Sequence[Threshold], origins: Mapping[str, str]) -> tuple[Threshold, ...]:
    """Return thresholds of the ini file with wildcards for what the command line replaces.

    They may name a dataset, or an attack, that the command line leaves out.
    """
    patterns = [each.pattern.split("/") for each in thresholds]
    kept = [(each, parts) for each, parts in zip(thresholds, patterns, strict=True)]
    if COMMAND_LINE in (origins["grb_dataset"], origins["grb_attack"]):
        kept = [(each, parts) for each, parts in kept if len(parts) > 1]
    if origins["grb_dataset"] == COMMAND_LINE:
        kept = [(each, ["*", *parts[1:]]) for each, parts in kept]
    if origins["grb_attack"] == COMMAND_LINE:
        kept = [(each, [*parts[:-1], "*"]) for each, parts in kept]
    return tuple(replace(each, pattern="/".join(parts)) for each, parts in kept)


def read_baseline(raw: RawValues, shard: Shard | None, *, update: bool) -> Baseline | None:
    """Return the baseline that is compared with or written; None if none is given.

    Args:
        raw: values of the options.
        shard: of the run.
        update: whether the baseline is to be written.

    Raises:
        UsageError: the file cannot be read or written, or the run must not write it.
    """
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
                f"--grb-baseline {str(path)!r} cannot be written by shard {shard} of a run; let "
                f"python -m grb_check merge write it, or leave --grb-shard out"
            )
    return baseline


def _margin(raw: RawValues) -> float:
    text = str(raw.one("grb_margin", LOSS_MARGIN)).strip()
    try:
        points = float(text)
    except ValueError:
        points = math.nan
    if not 0.0 <= points < 100.0:
        raise UsageError(
            f"--grb-margin {text!r} is not a number of accuracy points; give one from 0 to below "
            f"100, such as 2"
        )
    return points


def read_delta_to(raw: RawValues, models: Sequence[ModelSpec]) -> str:
    """Return the label of the model that deltas are to; empty for the reference GCN.

    The ini file may name a model that the command line leaves out.

    Raises:
        UsageError: no model has the label, or it is the only model.
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
