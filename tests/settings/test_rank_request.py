"""The ranks that the settings ask for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from settings_factory import bare

from grb_check.datasets import Places, Source
from grb_check.datasets.formats.grb_files import GRB_FILES
from grb_check.errors import UsageError
from grb_check.gate.limits import Gate
from grb_check.gate.rank_limits import RankLimit
from grb_check.ranking.comparison_models import ComparisonModels
from grb_check.settings.model_specs import ModelSpec
from grb_check.settings.rank_request import rank_request
from grb_check.settings.settings import COMMAND_LINE, DEFAULT, INI, OPTIONS

ORIGINS = dict.fromkeys((option.dest for option in OPTIONS), DEFAULT)
SETTINGS = bare(
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
