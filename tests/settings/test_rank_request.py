"""The ranks that the settings ask for."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest

from grb_check.datasets import Places, Source
from grb_check.datasets.formats.grb_files import GRB_FILES
from grb_check.errors import UsageError
from grb_check.gate.limits import Gate
from grb_check.gate.rank_limits import Group, RankLimit
from grb_check.ranking.comparison_models import ComparisonModels
from grb_check.settings.model_specs import ModelSpec
from grb_check.settings.option_table import COMMAND_LINE, DEFAULT, INI, OPTIONS
from grb_check.settings.rank_request import rank_request
from grb_check.settings.settings import Settings

ORIGINS = dict.fromkeys((option.dest for option in OPTIONS), DEFAULT)
SETTINGS = Settings(
    models=(ModelSpec(label="net", target="m:net", args={}),),
    suite="smoke",
    datasets=(Source("tiny", GRB_FILES, Path("tiny")),),
    difficulties=("easy", "full"),
    attacks=(("injection", "rnd"), ("modification", "dice")),
    patterns=(),
    repeats=1,
    gate=Gate(),
    places=Places(),
    store=None,
    device="cpu",
    outputs={},
    origins=ORIGINS | dict.fromkeys(("grb_min_rank", "grb_model", "grb_dataset"), COMMAND_LINE),
    comparison_models=ComparisonModels(zoo=True),
    rank_limits=(RankLimit("tiny/full", 2),),
)


def test_cases_are_grouped_by_model_dataset_and_difficulty() -> None:
    """Labels are in ids if there are several models."""
    found = rank_request(SETTINGS)
    assert list(found.planned) == [Group("net", "tiny", "easy"), Group("net", "tiny", "full")]
    assert list(chain(*found.planned.values())) == SETTINGS.cases()
    models = tuple(ModelSpec(label=label, target="m:net", args={}) for label in ("net", "other"))
    found = rank_request(replace(SETTINGS, models=models))
    assert [each.id for each in found.planned][-1] == "other@tiny/full"


@pytest.mark.parametrize(
    ("origins", "optional"),
    [
        ({"grb_rank_against": INI, "grb_min_rank": INI}, True),
        ({"grb_rank_against": INI, "grb_min_rank": INI, "grb_dataset": INI}, False),
        ({"grb_rank_against": COMMAND_LINE, "grb_min_rank": INI}, False),
        ({"grb_rank_against": INI, "grb_min_rank": COMMAND_LINE}, False),
    ],
)
def test_leaderboards_of_the_ini_file_are_optional_if_the_command_line_selects_cases(
    origins: dict[str, str], *, optional: bool
) -> None:
    """The user does not name them in this run."""
    assert rank_request(replace(SETTINGS, origins=SETTINGS.origins | origins)).optional is optional


def test_a_limit_needs_something_to_rank_against() -> None:
    """Unless it is the ini file's, and the command line names one model."""
    alone = replace(SETTINGS, comparison_models=ComparisonModels())
    with pytest.raises(UsageError, match="--grb-min-rank needs something to rank against"):
        rank_request(alone)
    rank_request(replace(alone, origins=SETTINGS.origins | {"grb_min_rank": INI}))


def test_limits_of_the_ini_file_may_name_other_datasets_and_models() -> None:
    """Those that the command line replaces today; unknown ones are refused."""
    lines = tuple(RankLimit(f"{each}/full", 1) for each in ("grb-cora", "old@mine", "net@tiny"))
    own = replace(SETTINGS, rank_limits=lines)
    ini = replace(own, origins=own.origins | {"grb_min_rank": INI})
    rank_request(ini)
    with pytest.raises(UsageError, match="'grb-cora/full' matches no dataset"):
        rank_request(own)
    both = replace(ini, origins=dict.fromkeys(ini.origins, INI))
    with pytest.raises(UsageError, match="'old@mine/full' matches no dataset"):
        rank_request(both)
    rank_request(replace(both, rank_limits=(RankLimit("proteins/full", 1),)))
    wrong = replace(ini, rank_limits=(RankLimit("mine/fulll", 1),))
    with pytest.raises(UsageError, match="'\\*/fulll' matches no dataset"):
        rank_request(wrong)
    rank_request(replace(own, rank_limits=(), origins=ORIGINS))
