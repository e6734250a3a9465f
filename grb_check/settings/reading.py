"""From raw values to `Settings`: read, parse, validate. Imports neither torch nor numpy."""

from __future__ import annotations

import math
import os
import reprlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from grb_check import datasets
from grb_check.attacks.names import read_budget
from grb_check.cases.attack_pairs import at_budgets
from grb_check.cases.attack_registry import AttackRegistry
from grb_check.cases.case import DIFFICULTIES, check_repeats
from grb_check.cases.shards import parse_shard
from grb_check.cases.suites import check_graph_sets
from grb_check.cases.whole_numbers import whole_number
from grb_check.errors import UsageError, choose
from grb_check.gate.baselines.baseline import Baseline
from grb_check.gate.rank_limits import parse_rank_limit
from grb_check.ranking.comparison_models import read_comparison_models
from grb_check.settings.judging import (
    read_baseline,
    read_expected_failures,
    read_gate,
)
from grb_check.settings.model_specs import read_models
from grb_check.settings.option_table import DEFAULT, Option
from grb_check.settings.raw_values import RawValues, read_raw
from grb_check.settings.registered_names import RegisteredNames
from grb_check.settings.report_paths import read_outputs
from grb_check.settings.selecting import (
    read_attacks,
    read_places,
    read_sources,
    read_suite,
    without_attacks,
)
from grb_check.settings.settings import Settings, in_order
from grb_check.store.packs import open_pack
from grb_check.store.place import StorePlace, is_url, place_of

STORE_VARIABLE: Final = "GRB_CHECK_STORE"
MOST_JOBS: Final = 1_000
LAST_DEVICE: Final = 127  # torch keeps the index in one byte


def read(
    lookup: Callable[[Option], tuple[Any, str]],
    rootdir: Path,
    here: Path,
    registry: AttackRegistry,
    names: RegisteredNames,
    *,
    update: bool = False,
    pin_label: str | bool | None = None,
) -> Settings:
    """Return the settings that raw values give.

    Args:
        lookup: raw value of an option (`MISSING` if not given) and its origin.
        rootdir: pytest's; relative paths of the ini file start there.
        here: working directory; relative paths of the command line start there.
        registry: resolves names of attacks.
        names: that plugins registered.
        update: whether the baseline is to be written.
        pin_label: label of its pin if that is to be moved to this run; True for one without.

    Raises:
        UsageError: names the option, the value given and what is allowed.
    """
    raw = read_raw(lookup, rootdir, here)
    texts, base = names.dataset_texts, raw.base("grb_dataset")
    asked = [texts.get(name) or datasets.anchored(name, base) for name in raw.many("grb_dataset")]
    suite = names.suite(read_suite(raw, asked, names), registry)
    raw = raw if suite.attacks else without_attacks(raw, suite.name)
    packed = raw.maybe_path("grb_pack")
    pack = None if packed is None else open_pack(packed)
    places = read_places(raw, suite)
    levels = [choose("difficulty", name, DIFFICULTIES) for name in raw.many("grb_difficulty")]
    budgets = sorted({read_budget(text, raw.name("grb_budget")) for text in raw.many("grb_budget")})
    attacks = read_attacks(raw, suite, registry)
    patterns = registry.split(raw.filled("grb_case"))
    models = read_models(raw.many("grb_model"), raw.texts("grb_model_args"), names.model_targets)
    sources = read_sources(asked, places, suite, texts, raw.origins)
    check_graph_sets(sources, levels, attacks, named=bool(raw.texts("grb_attack")))
    given = raw.one("grb_shard")
    shard = None if given is None else parse_shard(str(given))
    baseline = read_baseline(raw, models, shard, update=update, pin_label=pin_label)
    repeats = suite.repeats if baseline is None else baseline.repeats
    folder = rootdir / ".grb_check"
    return Settings(
        models=models,
        suite=suite.name,
        datasets=sources,
        difficulties=in_order(levels) or suite.difficulties,
        attacks=at_budgets(attacks, budgets),
        patterns=tuple(map(registry.canonical_pattern, patterns)),
        repeats=check_repeats(raw.name("grb_repeats"), raw.one("grb_repeats", repeats)),
        gate=read_gate(raw, registry),
        places=places,
        store=_store(raw, folder),
        device=_device(raw.one("grb_device", "auto"), raw.name("grb_device")),
        outputs=read_outputs(raw),
        origins=_origins(raw, baseline),
        budgets=tuple(budgets),
        comparison_models=read_comparison_models(
            raw.many("grb_rank_against"), lambda text: raw.path("grb_rank_against", text)
        ),
        rank_limits=tuple(map(parse_rank_limit, raw.many("grb_min_rank"))),
        expected_failures=read_expected_failures(raw, registry),
        baseline=baseline,
        evidence=_directory(raw, "grb_evidence", folder / "evidence"),
        shrink=raw.one("grb_shrink") is True,
        shard=shard,
        jobs=_jobs(raw),
        executor=str(raw.one("grb_executor", "")).strip(),
        timeout=_timeout(raw),
        resume=raw.one("grb_resume") is True,
        registered_datasets=texts,
        pack=pack,
    )


def _store(raw: RawValues, default: Path) -> StorePlace | None:
    given = raw.one("grb_store")
    named = os.environ.get(STORE_VARIABLE) if given is None else given
    if named == "off":
        if raw.one("grb_resume") is True:
            raise UsageError(
                f"{raw.name('grb_resume')} takes measurements from the store, which is off; name "
                f"the store of the interrupted run by --grb-store"
            )
        return None
    if given is None:
        return place_of(named or str(default), STORE_VARIABLE)
    text = given if is_url(given) else str(raw.path("grb_store", given))
    return place_of(text, raw.name("grb_store"))


def _directory(raw: RawValues, dest: str, default: Path) -> Path | None:
    """Return the directory that an option gives; None for `off`."""
    given = raw.one(dest)
    if given is None:
        return default
    return None if given == "off" else raw.path(dest, given)


def _jobs(raw: RawValues) -> int | None:
    """Return the number of processes; 0 for `auto`, None for none."""
    given = raw.one("grb_jobs")
    if given is None or str(given).strip() == "auto":
        return None if given is None else 0
    jobs = whole_number(given, 1, MOST_JOBS)
    if jobs is None:
        raise UsageError(
            f"{raw.name('grb_jobs')} {reprlib.repr(given)} is not a number of processes; give a "
            f"whole number from 1 to {MOST_JOBS:,}, or auto"
        )
    return jobs


def _timeout(raw: RawValues) -> float | None:
    given = raw.one("grb_timeout")
    if given is None:
        return None
    with suppress(ValueError):
        if 0 < (seconds := float(given)) < math.inf:
            return seconds
    raise UsageError(
        f"{raw.name('grb_timeout')} {reprlib.repr(given)} is not a number of seconds; give one "
        f"above 0"
    )


def _device(text: str, name: str) -> str:
    kind, colon, index = text.partition(":")
    choose("device", kind, ("auto", "cpu", "cuda", "mps", "xpu"))
    if colon and (kind == "auto" or whole_number(index, 0, LAST_DEVICE) is None):
        raise UsageError(
            f"{name} {reprlib.repr(text)}: after ':' a number from 0 to {LAST_DEVICE} may follow, "
            f"and none after auto; write it as in 'cuda:0'"
        )
    return text


def _origins(raw: RawValues, baseline: Baseline | None) -> dict[str, str]:
    """Return the origin of each value; defaults that were found elsewhere name that place."""
    origins = raw.origins
    if origins["grb_store"] == DEFAULT and os.environ.get(STORE_VARIABLE):
        origins["grb_store"] = f"${STORE_VARIABLE}"
    if origins["grb_repeats"] == DEFAULT and baseline is not None:
        origins["grb_repeats"] = "baseline"
    return origins
