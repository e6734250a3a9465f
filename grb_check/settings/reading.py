"""From raw values to `Settings`: read, parse, validate. Imports neither torch nor numpy."""

from __future__ import annotations

import math
import os
import reprlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final

from grb_check import datasets
from grb_check.attacks.names import read_budget
from grb_check.attacks.registry import Pair
from grb_check.cases.attack_pairs import at_budgets
from grb_check.cases.attack_registry import AttackRegistry
from grb_check.cases.case import DIFFICULTIES
from grb_check.cases.shards import Shard, parse_shard
from grb_check.cases.suites import Suite, check_graph_sets, check_poisoned_in_training
from grb_check.cases.whole_numbers import check_repeats, whole_number
from grb_check.datasets import Places, Source
from grb_check.errors import UsageError, choose
from grb_check.gate.baselines.baseline import BASE_REPEATS, Baseline
from grb_check.gate.expected_failures import ExpectedFailure
from grb_check.gate.limits import Gate
from grb_check.ranking.comparison_models import ComparisonModels, read_comparison_models
from grb_check.settings.judging import (
    read_base,
    read_baseline,
    read_expected_failures,
    read_gate,
)
from grb_check.settings.model_specs import ModelSpec, read_models
from grb_check.settings.raw_values import RawValues, read_outputs, read_raw
from grb_check.settings.registered_names import RegisteredNames
from grb_check.settings.selecting import (
    in_order,
    read_attacks,
    read_places,
    read_sources,
    read_suite,
    without_attacks,
)
from grb_check.settings.settings import DEFAULT, Option, Settings
from grb_check.store.pack import Pack, open_pack
from grb_check.store.place import StorePlace, place_of
from grb_check.user_code.revisions import Revision

FOLDER: Final = ".grb_check"  # in rootdir, of the store and of evidence
STORE_VARIABLE: Final = "GRB_CHECK_STORE"
MOST_JOBS: Final = 1_000
LAST_DEVICE: Final = 127  # torch keeps the index in one byte


def read(
    lookup: Callable[[Option], tuple[Any, str]],
    rootdir: Path,
    cwd: Path,
    registry: AttackRegistry,
    names: RegisteredNames,
    *,
    update: bool = False,
) -> Settings:
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
    reading = Reading(read_raw(lookup, rootdir, cwd), registry, names, update)
    return Settings(
        **{attribute.name: getattr(reading, attribute.name) for attribute in fields(Settings)}
    )


class Reading:
    """Reads each field of `Settings`, by the property of the same name.

    Each is read when it is asked for, once, and may ask for others.

    Args:
        raw: values of the options.
        registry: resolves names of attacks.
        names: that plugins registered.
        update: whether the baseline is to be written.
    """

    def __init__(
        self,
        raw: RawValues,
        registry: AttackRegistry,
        names: RegisteredNames,
        update: bool = False,
    ) -> None:
        self._given = raw
        self._registry = registry
        self._names = names
        self._update = update

    @cached_property
    def _asked(self) -> list[str]:
        """The datasets that are given, as texts that `datasets.find` understands."""
        raw, texts = self._given, self._names.dataset_texts
        base = raw.base("grb_dataset")
        named = raw.many("grb_dataset")
        return [texts.get(name) or datasets.anchored(name, base) for name in named]

    @cached_property
    def _suite(self) -> Suite:
        name = read_suite(self._given, self._asked, self._names)
        return self._names.suite(name, self._registry)

    @cached_property
    def _raw(self) -> RawValues:
        """The values that mean something in the suite."""
        suite = self._suite
        return self._given if suite.attacks else without_attacks(self._given, suite.name)

    @cached_property
    def models(self) -> tuple[ModelSpec, ...]:
        args = self._raw.texts("grb_model_args")
        return read_models(self._raw.many("grb_model"), args, self._names.model_targets)

    @cached_property
    def suite(self) -> str:
        return self._suite.name

    @cached_property
    def datasets(self) -> tuple[Source, ...]:
        result = read_sources(
            self._asked, self.places, self._suite, self._names.dataset_texts, self._raw.origins
        )
        named = bool(self._raw.texts("grb_attack"))
        check_graph_sets(result, self._levels, self._attacks, named=named)
        transductive = self.places.training == "transductive"
        check_poisoned_in_training(self._attacks, transductive=transductive)
        return result

    @cached_property
    def _levels(self) -> list[str]:
        return [
            choose("difficulty", name, DIFFICULTIES) for name in self._raw.many("grb_difficulty")
        ]

    @cached_property
    def difficulties(self) -> tuple[str, ...]:
        return in_order(self._levels) or self._suite.difficulties

    @cached_property
    def _attacks(self) -> tuple[Pair, ...]:
        return read_attacks(self._raw, self._suite, self._registry)

    @cached_property
    def attacks(self) -> tuple[Pair, ...]:
        return at_budgets(self._attacks, self.budgets)

    @cached_property
    def budgets(self) -> tuple[float, ...]:
        texts, name = self._raw.many("grb_budget"), self._raw.name("grb_budget")
        return tuple(sorted({read_budget(text, name) for text in texts}))

    @cached_property
    def patterns(self) -> tuple[str, ...]:
        texts = self._registry.split(self._raw.filled("grb_case"))
        return tuple(map(self._registry.canonical_pattern, texts))

    @cached_property
    def repeats(self) -> int:
        usual = self._suite.repeats if self.baseline is None else self.baseline.repeats
        if self.base is not None:
            usual = BASE_REPEATS
        return check_repeats(self._raw.name("grb_repeats"), self._raw.one("grb_repeats", usual))

    @cached_property
    def gate(self) -> Gate:
        return read_gate(self._raw, self._registry)

    @cached_property
    def expected_failures(self) -> tuple[ExpectedFailure, ...]:
        return read_expected_failures(self._raw, self._registry)

    @cached_property
    def comparison_models(self) -> ComparisonModels:
        words = self._raw.many("grb_rank_against")
        return read_comparison_models(words, partial(self._raw.path, "grb_rank_against"))

    @cached_property
    def places(self) -> Places:
        return read_places(self._raw, self._suite)

    @cached_property
    def store(self) -> StorePlace | None:
        return _store(self._raw, self._raw.rootdir / FOLDER)

    @cached_property
    def pack(self) -> Pack | None:
        path = self._raw.maybe_path("grb_pack")
        return None if path is None else open_pack(path)

    @cached_property
    def device(self) -> str:
        return _device(self._raw.one("grb_device", "auto"), self._raw.name("grb_device"))

    @cached_property
    def jobs(self) -> int | None:
        return _jobs(self._raw)

    @cached_property
    def timeout(self) -> float | None:
        return _timeout(self._raw)

    @cached_property
    def resume(self) -> bool:
        return self._raw.is_set("grb_resume")

    @cached_property
    def baseline(self) -> Baseline | None:
        return read_baseline(self._raw, self.models, self.shard, update=self._update)

    @cached_property
    def base(self) -> Revision | None:
        return read_base(self._raw)

    @cached_property
    def evidence(self) -> Path | None:
        return _directory(self._raw, "grb_evidence", self._raw.rootdir / FOLDER / "evidence")

    @cached_property
    def shrink(self) -> bool:
        return self._raw.is_set("grb_shrink")

    @cached_property
    def shard(self) -> Shard | None:
        given = self._raw.one("grb_shard")
        return None if given is None else parse_shard(str(given))

    @cached_property
    def outputs(self) -> Mapping[str, Path]:
        return read_outputs(self._raw)

    @cached_property
    def registered_datasets(self) -> Mapping[str, str]:
        return self._names.dataset_texts

    @cached_property
    def given(self) -> Mapping[str, str]:
        return self._raw.given

    @cached_property
    def origins(self) -> Mapping[str, str]:
        """Of each value; defaults that were found elsewhere name that place."""
        origins = self._raw.origins
        if origins["grb_store"] == DEFAULT and os.environ.get(STORE_VARIABLE):
            origins["grb_store"] = f"${STORE_VARIABLE}"
        if origins["grb_repeats"] == DEFAULT and self.baseline is not None:
            origins["grb_repeats"] = "baseline"
        if origins["grb_repeats"] == DEFAULT and self.base is not None:
            origins["grb_repeats"] = "base"
        return origins


def _store(raw: RawValues, default: Path) -> StorePlace | None:
    given = raw.one("grb_store")
    named = os.environ.get(STORE_VARIABLE) if given is None else given
    if named == "off":
        if raw.is_set("grb_resume"):
            raise UsageError(
                f"{raw.name('grb_resume')} takes measurements from the store, which is off; name "
                f"the store of the interrupted run by --grb-store"
            )
        return None
    if given is None:
        return place_of(named or str(default), STORE_VARIABLE)
    text = given if "://" in given else str(raw.path("grb_store", given))  # a URL is refused
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
