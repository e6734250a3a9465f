"""The plan of a session: options -> settings -> cases. Made before anything is collected."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from grb_check import datasets
from grb_check.cases.attack_registry import AttackRegistry
from grb_check.cases.case import Case
from grb_check.cases.node_ids import NodeId, node_path
from grb_check.cases.shards import RunCases, divide
from grb_check.errors import UsageError
from grb_check.gate.expected_failures import reasons
from grb_check.ranking.comparison_models import Boards
from grb_check.runs.inputs import Inputs, boards_of, open_inputs, recorded_durations
from grb_check.session.collection import MARK, names_files_only, take_node_ids
from grb_check.session.options_in_two_words import refuse_options_in_two_words
from grb_check.session.plugin_hooks import pass_settings, registered_names
from grb_check.session.pytest_private import captured, is_worker
from grb_check.settings import pytest_options
from grb_check.settings.judging import check_expected_failures, check_thresholds
from grb_check.settings.options import COMMAND_LINE
from grb_check.settings.raw_values import check_all, read_raw
from grb_check.settings.reading import read
from grb_check.settings.selecting import (
    cases_of,
    read_places,
    selects_now,
    widened,
)
from grb_check.settings.settings import RunSettings
from grb_check.user_code.factories import quiet_imports

NOT_ASKED_FOR: Final = f"not {MARK}"  # as -m, without which no work is done for the cases


@dataclass(frozen=True, kw_only=True)
class SessionPlan:
    """The work of a session.

    Attributes:
        inputs: the settings in force, and what they name, opened.
        registry: of the attacks that the run can name.
        cases: of the whole run, and those of this part of it.
        seconds: that one repeat of each case may take, by id.
        durations: file of these durations; None without one.
        boards: to rank on.
        expected_failures: id -> reason of the cases that are expected to fail.
        left_out: whether the built-in cases are left out, because the command line names single
            test files and the model comes from the ini file, or by `-m "not grb"`.
    """

    inputs: Inputs
    registry: AttackRegistry
    cases: RunCases
    seconds: Mapping[str, float]
    durations: Path | None
    boards: Boards
    expected_failures: Mapping[str, str]
    left_out: bool

    @property
    def settings(self) -> RunSettings:
        """The settings in force."""
        return self.inputs.settings


def plan_session(config: pytest.Config) -> SessionPlan:
    """Read the options, and take node ids of built-in cases out of pytest's arguments.

    Raises:
        UsageError, DataError: an option or ini value is wrong.
    """
    refuse_options_in_two_words(config)
    names = registered_names(config)
    node_ids = take_node_ids(config)
    invocation_dir = config.invocation_params.dir
    if pytest_options.names_users_code(config):
        sys.path[:0] = map(str, dict.fromkeys([invocation_dir, config.rootpath]))
        # Read when torch is loaded: waiting threads sleep instead of taking a core from another
        # worker; without it two workers on two cores are several times slower.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    registry = AttackRegistry(names.attacks)
    with quiet_imports(), captured(config):  # attacks of users are imported
        update = config.getoption("grb_update_baseline") is True
        lookup = pytest_options.lookup(config)
        given = read(lookup, config.rootpath, invocation_dir, registry, names, update=update)
    needs = "an id of a grb case" if node_ids else pytest_options.selecting(config)
    if needs and not given.models:
        raise UsageError(f"{needs} needs a model; add --grb-model pkg.module:attr")
    inputs = open_inputs(widened(given, node_ids, registry), invocation_dir)
    settings = inputs.settings
    only = bool(config.getoption("grb_only"))
    if config.option.markexpr == NOT_ASKED_FOR and (only or node_ids or update):
        config.option.markexpr = ""  # that of addopts: the cases are asked for
    check_thresholds(settings, registry)
    left_out = _leaves_out(config, settings, node_ids, only=only)
    idle = left_out or not settings.models
    selected = [] if idle else _selected(settings, node_ids)
    seconds, durations = recorded_durations(inputs)
    cases = divide(selected, settings.execution.shard, seconds)
    narrowed = bool(node_ids) or not selected or selects_now(settings.origins)
    check_expected_failures(settings, registry, selected, narrowed=narrowed)
    boards = boards_of(settings, selected)
    if only:
        config.args[:] = []
    pass_settings(config, settings)
    if not is_worker(config):
        check_all("--grb-", settings.execution.outputs, inputs.baseline)
    return SessionPlan(
        inputs=inputs,
        registry=registry,
        cases=cases,
        seconds=seconds,
        durations=durations,
        boards=boards,
        expected_failures=reasons(settings.expected_failures, selected, settings.label),
        left_out=left_out,
    )


def places_of(config: pytest.Config) -> datasets.Places:
    """Return where datasets may come from, by the options and the ini file alone.

    Raises:
        UsageError: a folder is not a directory, or a source or the split is unknown.
    """
    invocation_dir = config.invocation_params.dir
    return read_places(read_raw(pytest_options.lookup(config), config.rootpath, invocation_dir))


def _leaves_out(
    config: pytest.Config, settings: RunSettings, node_ids: Sequence[NodeId], *, only: bool
) -> bool:
    """Whether the command line is about single test files alone, or leaves the cases out."""
    if config.option.markexpr == NOT_ASKED_FOR:
        return True
    named_here = settings.origins["grb_model"] == COMMAND_LINE
    if not settings.models or node_ids or named_here or only:
        return False
    return names_files_only(config)


def _selected(settings: RunSettings, node_ids: Sequence[NodeId]) -> list[Case]:
    """The cases that the options select, or those that the node ids name.

    Raises:
        UsageError: a node id names none of them.
    """
    cases = cases_of(settings)
    for node_id in node_ids:
        if not any(map(node_id.selects, cases)):
            raise UsageError(
                f"no grb case has an id like {node_id}; the selected ones begin with "
                f"{cases[0].id!r}, as {node_path(cases[0])}::..."
            )
    return [
        case for case in cases if not node_ids or any(node_id.selects(case) for node_id in node_ids)
    ]
