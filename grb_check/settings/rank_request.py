"""The ranks that the settings ask for. Imports no torch.

The ini file may name leaderboards and limits for models, datasets and cases that today's command
line leaves out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from grb_check import datasets
from grb_check.cases.case import DIFFICULTIES, Case
from grb_check.errors import UsageError
from grb_check.gate.rank_limits import FLAG as LIMIT_FLAG
from grb_check.gate.rank_limits import Group, RankLimit, check_rank_limits
from grb_check.ranking.comparison_models import FLAG
from grb_check.ranking.rank_plan import RankRequest
from grb_check.settings.selected import cases_of
from grb_check.settings.settings import COMMAND_LINE, INI, Settings, tagged


def rank_request(settings: Settings) -> RankRequest:
    """Return the ranks that the settings ask for.

    Raises:
        UsageError: a limit can never apply.
    """
    planned: dict[Group, list[Case]] = {}
    for case in cases_of(settings):
        label = settings.model(case.model).label if settings.models else ""
        group = Group(label, case.dataset, case.difficulty, several=bool(case.model))
        planned.setdefault(group, []).append(case)
    _check_limits(settings, list(planned))
    return RankRequest(
        models=settings.comparison_models,
        limits=settings.rank_limits,
        optional=is_optional(settings.origins),
        planned=planned,
        sources=settings.datasets,
        places=settings.places,
        gate=settings.gate,
        shard=settings.shard,
    )


def is_optional(origins: Mapping[str, str]) -> bool:
    """Whether the ini file asks for ranks, and the command line for cases that it may not know."""
    asked = {origins.get("grb_rank_against"), origins.get("grb_min_rank")}
    return COMMAND_LINE not in asked and selects_now(origins)


def selects_now(origins: Mapping[str, str]) -> bool:
    """Whether the command line selects cases."""
    return any(origins.get(each.dest) == COMMAND_LINE for each in tagged("selects"))


def _check_limits(settings: Settings, groups: Sequence[Group]) -> None:
    """Refuse limits that match nothing, and limits in a run that ranks nothing."""
    limits, origins = settings.rank_limits, settings.origins
    if not limits or not groups:
        return
    if not settings.comparison_models and len(settings.models) < 2:
        if origins["grb_min_rank"] == INI and origins["grb_model"] != INI:
            return
        raise UsageError(
            f"{LIMIT_FLAG} needs something to rank against; add {FLAG}=published, {FLAG}=zoo or "
            f"another --grb-model"
        )
    if origins["grb_min_rank"] == INI:
        known = (
            *datasets.known_names(),
            *datasets.GRAPH_SETS,
            *settings.registered_datasets,
        )
        names = dict.fromkeys([*(each.dataset for each in groups), *known])
        labels = dict.fromkeys(each.model for each in groups)
        groups = [
            Group(label, name, level)
            for label in labels
            for name in names
            for level in DIFFICULTIES
        ]
        limits = tuple(_for_any(limit, origins) for limit in limits)
    check_rank_limits(limits, groups)


def _for_any(limit: RankLimit, origins: Mapping[str, str]) -> RankLimit:
    """Return a limit without the model and the dataset that the command line replaces."""
    label, at, rest = limit.pattern.rpartition("@")
    if at and origins["grb_model"] == COMMAND_LINE:
        label, at = "", ""
    dataset, slash, level = rest.rpartition("/")
    if slash and origins["grb_dataset"] == COMMAND_LINE:
        dataset = "*"
    return replace(limit, pattern=f"{label}{at}{dataset}{slash}{level}")
