"""The options that decide what passes: limits and the baseline."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

from grb_check import datasets
from grb_check.cases.attack_pairs import known_attacks
from grb_check.cases.attack_registry import AttackRegistry
from grb_check.cases.case import DIFFICULTIES, Case
from grb_check.cases.selection import check_match, expand
from grb_check.cases.shards import Shard
from grb_check.errors import UsageError, choose
from grb_check.gate.baselines.baseline import LOSS_MARGIN, Baseline, open_baseline
from grb_check.gate.expected_failures import (
    ExpectedFailure,
    parse_expected_failure,
    reasons,
)
from grb_check.gate.limits import Gate
from grb_check.gate.thresholds import check_patterns, parse_fraction, parse_threshold
from grb_check.settings.model_specs import ModelSpec
from grb_check.settings.raw_values import RawValues, read_output
from grb_check.settings.settings import COMMAND_LINE, INI, UPDATE_FLAG, Settings
from grb_check.user_code.revisions import Revision, find_revision

RESULTS: Final[tuple[Literal["pass", "fail"], ...]] = ("pass", "fail")  # for --grb-inconclusive
_EXPECTED: Final = "grb_expected_failure"


def read_gate(raw: RawValues, registry: AttackRegistry) -> Gate:
    """Return the limits that the options give.

    Raises:
        UsageError: a limit is not a fraction, or an attack does not take a modifier.
    """

    def fraction(dest: str) -> float | None:
        value = raw.one(dest)
        return None if value is None else parse_fraction(str(value), raw.name(dest))

    parsed = map(parse_threshold, registry.split(raw.filled("grb_threshold")))
    return Gate(
        thresholds=tuple(
            replace(threshold, pattern=registry.canonical_pattern(threshold.pattern))
            for threshold in parsed
        ),
        max_drop=fraction("grb_max_drop"),
        min_clean=fraction("grb_min_clean"),
        strict_diagnostics=raw.one("grb_strict_diagnostics") is True,
        inconclusive=choose("--grb-inconclusive", raw.one("grb_inconclusive", "pass"), RESULTS),
    )


def read_expected_failures(raw: RawValues, registry: AttackRegistry) -> tuple[ExpectedFailure, ...]:
    """Return the known failures, with attacks spelled as in case ids.

    Raises:
        UsageError: a line has no reason, or an attack does not take a modifier.
    """
    lines = map(parse_expected_failure, raw.texts("grb_expected_failure"))
    return tuple(replace(line, pattern=registry.canonical_pattern(line.pattern)) for line in lines)


def check_thresholds(settings: Settings, registry: AttackRegistry) -> None:
    """Refuse threshold patterns that match no case of any known dataset, attack and model.

    Raises:
        UsageError: see `gate.limits.check_patterns`.
    """
    patterns = [limit.pattern for limit in settings.gate.thresholds]
    _check_known("grb_threshold", patterns, settings, registry)


def check_expected_failures(
    settings: Settings,
    registry: AttackRegistry,
    cases: Sequence[Case],
    *,
    narrowed: bool,
) -> None:
    """Refuse known failures that match no case of the run.

    The ini file may name cases that the command line leaves out: its lines only have to match a
    case of any known dataset, attack and model then.

    Args:
        settings: of the run.
        registry: of attacks.
        cases: of the whole run.
        narrowed: whether the command line selects cases.

    Raises:
        UsageError: names the pattern that matches none.
    """
    origins = settings.origins
    for pattern in settings.expected_failures:
        absent = narrowed or ("@" in pattern.pattern and origins["grb_model"] == COMMAND_LINE)
        if reasons([pattern], cases, settings.label):
            continue
        if origins[_EXPECTED] == INI and absent:
            _check_known(_EXPECTED, [pattern.pattern], settings, registry)
        else:
            check_match("expected failure", pattern.pattern, cases)


def _check_known(
    dest: str, patterns: Sequence[str], settings: Settings, registry: AttackRegistry
) -> None:
    """Refuse patterns of that option that match no case of any known dataset, attack and model."""
    names = [source.name for source in settings.datasets]
    known = (*datasets.known_names(), *datasets.GRAPH_SETS, *settings.registered_datasets)
    every = dict.fromkeys([*names, *known])
    labels = ["", *(model.label for model in settings.models)]
    if settings.origins[dest] == INI:
        patterns = _for_any(patterns, settings.origins)
    named = [pair for pattern in patterns for pair in registry.named_in(pattern)]
    attacks = dict.fromkeys([*known_attacks(), *settings.attacks, *registry.user_attacks, *named])
    what = dest.removeprefix("grb_").replace("_", " ")
    check_patterns(what, patterns, expand(labels, list(every), DIFFICULTIES, list(attacks)))


def _for_any(patterns: Sequence[str], origins: Mapping[str, str]) -> list[str]:
    """Return patterns of the ini file with wildcards for what the command line replaces.

    They may name a model, a dataset, or an attack, that the command line leaves out.
    """
    split_patterns = [pattern.split("/") for pattern in patterns]
    if COMMAND_LINE in (origins["grb_dataset"], origins["grb_attack"]):
        split_patterns = [parts for parts in split_patterns if len(parts) > 1]
    if origins["grb_model"] == COMMAND_LINE:
        split_patterns = [[parts[0].rpartition("@")[2], *parts[1:]] for parts in split_patterns]
    if origins["grb_dataset"] == COMMAND_LINE:
        split_patterns = [["*", *parts[1:]] for parts in split_patterns]
    if origins["grb_attack"] == COMMAND_LINE:
        split_patterns = [[*parts[:-1], "*"] for parts in split_patterns]
    return ["/".join(parts) for parts in split_patterns]


def read_baseline(
    raw: RawValues,
    models: Sequence[ModelSpec],
    shard: Shard | None,
    *,
    update: bool,
) -> Baseline | None:
    """Return the baseline that is compared with or written; None if none is given, or `off`.

    Args:
        raw: values of the options.
        models: of the run.
        shard: of the run.
        update: whether the baseline is to be written.

    Raises:
        UsageError: the file cannot be read, or the run must not write it.
    """
    off = raw.one("grb_baseline") == "off"
    path = None if off else read_output(raw, "grb_baseline")
    margin = read_margin(raw)
    if raw.one("grb_base") is not None:
        _check_beside_base(raw, path, update=update)
        return None
    if path is None:
        if update:
            raise UsageError(f"{UPDATE_FLAG} needs the file to write; add --grb-baseline=FILE")
        return None
    model = models[0].label if len(models) == 1 else ""
    baseline = open_baseline(path, margin, model, update=update)
    if baseline.writes and shard is not None:
        raise UsageError(
            f"--grb-baseline {str(path)!r} cannot be written by shard {shard} of a run; let "
            f"python -m grb_check merge write it, or leave --grb-shard out"
        )
    return baseline


def read_margin(raw: RawValues) -> float:
    """Return the tolerated loss of attacked accuracy, in points.

    Raises:
        UsageError: see `read_points`.
    """
    return read_points(str(raw.one("grb_margin", LOSS_MARGIN)), raw.name("grb_margin"))


def _check_beside_base(raw: RawValues, path: Path | None, *, update: bool) -> None:
    """Refuse a file beside a base on the command line; that of the ini file stands back."""
    if update or (path is not None and raw.is_given("grb_baseline")):
        raise UsageError(
            f"{raw.name('grb_base')} compares with a revision, and --grb-baseline with a file: "
            f"give one of them"
        )


def read_base(raw: RawValues) -> Revision | None:
    """Return the revision that the run is compared with; None if none is given.

    Raises:
        UsageError: there is no such revision.
    """
    name = raw.one("grb_base")
    if name is None:
        return None
    return find_revision(str(name), raw.cwd, raw.name("grb_base"))


def read_points(text: str, name: str) -> float:
    """Return a number of accuracy points from 0 on and below 100.

    Args:
        text: as given.
        name: of the option, for the message.

    Raises:
        UsageError: it is not such a number.
    """
    try:
        points = float(text)
    except ValueError:
        points = math.nan
    if not 0.0 <= points < 100.0:
        raise UsageError(
            f"{name} {reprlib.repr(text)} is not a number of accuracy points; give one from 0 and "
            f"below 100, such as 2"
        )
    return points
