"""The options that decide what passes: limits and the baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from grb_check import datasets
from grb_check.cases.attack_pairs import known_attacks
from grb_check.cases.attack_registry import AttackRegistry
from grb_check.cases.case import DIFFICULTIES, Case
from grb_check.cases.selection import check_match, expand
from grb_check.errors import UsageError
from grb_check.gate.expected_failures import (
    ExpectedFailure,
    parse_expected_failure,
    reasons,
)
from grb_check.gate.limits import Gate
from grb_check.gate.thresholds import check_patterns, parse_threshold
from grb_check.settings.options import COMMAND_LINE, INI, UPDATE_FLAG
from grb_check.settings.parsers import OFF
from grb_check.settings.raw_values import RawValues
from grb_check.settings.settings import RunSettings

EXPECTED: Final = "grb_expected_failure"


def read_gate(raw: RawValues, values: Mapping[str, Any], registry: AttackRegistry) -> Gate:
    """Return the limits that the options give.

    Args:
        raw: values of the options.
        values: of the options that are parsed by themselves.
        registry: of attacks.

    Raises:
        UsageError: a limit is not a fraction, or an attack does not take a modifier.
    """
    parsed = map(parse_threshold, registry.split(raw.filled("grb_threshold")))
    return Gate(
        thresholds=tuple(
            replace(threshold, pattern=registry.canonical_pattern(threshold.pattern))
            for threshold in parsed
        ),
        max_drop=values["grb_max_drop"],
        min_clean=values["grb_min_clean"],
        strict_diagnostics=values["grb_strict_diagnostics"],
        inconclusive=values["grb_inconclusive"],
    )


def read_expected_failures(raw: RawValues, registry: AttackRegistry) -> tuple[ExpectedFailure, ...]:
    """Return the known failures, with attacks spelled as in case ids.

    Raises:
        UsageError: a line has no reason, or an attack does not take a modifier.
    """
    lines = map(parse_expected_failure, raw.texts("grb_expected_failure"))
    return tuple(replace(line, pattern=registry.canonical_pattern(line.pattern)) for line in lines)


def check_thresholds(settings: RunSettings, registry: AttackRegistry) -> None:
    """Refuse threshold patterns that match no case of any known dataset, attack and model.

    Raises:
        UsageError: see `gate.thresholds.check_patterns`.
    """
    patterns = [limit.pattern for limit in settings.gate.thresholds]
    _check_known("grb_threshold", patterns, settings, registry)


def check_expected_failures(
    settings: RunSettings,
    registry: AttackRegistry,
    cases: Sequence[Case],
    *,
    narrowed: bool,
) -> None:
    """Refuse known failures that match no case of the run.

    The ini file may name cases that the command line leaves out: its lines only have to match a
    case of any known dataset, attack and model then. Lines of the ini file without a slash are of
    the properties of a suite without attacks.

    Args:
        settings: of the run.
        registry: of attacks.
        cases: of the whole run.
        narrowed: whether the command line selects cases.

    Raises:
        UsageError: names the pattern that matches none.
    """
    origins = settings.origins
    if not settings.attacks:
        return  # the plugin of the suite knows what its lines may name
    for pattern in settings.expected_failures:
        absent = narrowed or ("@" in pattern.pattern and origins["grb_model"] == COMMAND_LINE)
        if reasons([pattern], cases, settings.label):
            continue
        if origins[EXPECTED] == INI and "/" not in pattern.pattern:
            continue
        if origins[EXPECTED] == INI and absent:
            _check_known(EXPECTED, [pattern.pattern], settings, registry)
        else:
            check_match("expected failure", pattern.pattern, cases)


def _check_known(
    dest: str, patterns: Sequence[str], settings: RunSettings, registry: AttackRegistry
) -> None:
    """Refuse patterns of that option that match no case of any known dataset, attack and model."""
    names = [source.name for source in settings.datasets]
    known = (*datasets.known_names(), *datasets.GRAPH_SETS, *settings.execution.registered_datasets)
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


def check_baseline(raw: RawValues, settings: RunSettings) -> None:
    """Refuse options of the baseline that do not go together.

    A file of the ini file stands back for a base.

    Raises:
        UsageError: a base beside a file on the command line, no file to write, or a setting of a
            comparison on the command line without any.
    """
    if settings.base is not None:
        file = raw.is_given("grb_baseline") and raw.one("grb_baseline") != OFF
        if settings.update or file:
            raise UsageError(
                f"{raw.name('grb_base')} compares with a revision, and --grb-baseline with a file: "
                f"give one of them"
            )
    elif settings.update and not settings.baseline:
        raise UsageError(f"{UPDATE_FLAG} needs the file to write; add --grb-baseline=FILE")
    if settings.base or settings.baseline or settings.execution.shard:  # parts are compared later
        return
    for dest in filter(raw.is_given, ("grb_margin", "grb_inconclusive")):
        raise UsageError(
            f"{raw.name(dest)} is of a comparison, and this run is compared with nothing; add "
            f"--grb-base=REV or --grb-baseline=FILE, or leave it out; {dest} of the ini file waits "
            f"for one of them"
        )
