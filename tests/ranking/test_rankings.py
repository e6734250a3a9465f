"""What a run checks of ranks before its cases, and what it says of limits after them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from boards import board_of

from grb_check.cases.shards import Shard
from grb_check.datasets import Places, Source
from grb_check.datasets.formats.grb_files import GRB_FILES
from grb_check.errors import UsageError
from grb_check.gate.limits import Gate
from grb_check.gate.rank_limits import Group, RankLimit
from grb_check.ranking.boards.board import NO_ATTACK
from grb_check.ranking.boards.files import write_board
from grb_check.ranking.comparison_models import Against
from grb_check.ranking.rankings import prepare
from grb_check.ranking.standings import Place, Ranks
from grb_check.settings.model_specs import ModelSpec
from grb_check.settings.option_table import OPTIONS
from grb_check.settings.options import COMMAND_LINE, DEFAULT, INI
from grb_check.settings.report_paths import Outputs
from grb_check.settings.settings import Settings

ROWS = {"injection/rnd": (0.5,), NO_ATTACK: (0.8,)}
LIMIT = RankLimit("tiny/full", 2)
NET = Group("net", "tiny", "full")


def settings(home: Path, limits: tuple[RankLimit, ...] = (LIMIT,), **more: object) -> Settings:
    """One model on `tiny`, full, under two attacks."""
    origins = dict.fromkeys((option.dest for option in OPTIONS), DEFAULT)
    origins |= dict.fromkeys(("grb_min_rank", "grb_model", "grb_dataset"), COMMAND_LINE)
    made = Settings(
        models=(ModelSpec(label="net", target="m:net", args={}),),
        suite="smoke",
        datasets=(Source("tiny", GRB_FILES, home),),
        difficulties=("full",),
        attacks=(("injection", "rnd"), ("modification", "dice")),
        patterns=(),
        repeats=1,
        gate=Gate(),
        places=Places(home=home),
        store=None,
        device="cpu",
        outputs=Outputs(),
        origins=origins,
        against=Against(zoo=True),
        rank_limits=limits,
    )
    return replace(made, **more)  # type: ignore[arg-type]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A data home with a measured leaderboard of `tiny`, full."""
    write_board(
        replace(board_of({"GCN": ROWS}), split="grb"), tmp_path / "leaderboards" / "tiny.json"
    )
    return tmp_path


def test_a_run_without_cases_reads_no_leaderboard(home: Path) -> None:
    """As one of single files, with a model in the ini file."""
    empty = settings(home / "nowhere")
    assert prepare(empty, []).opponents == {}
    assert list(prepare(settings(home), settings(home).cases()).opponents) == ["tiny"]


def test_what_the_ini_file_asks_for_does_not_stop_other_runs(home: Path) -> None:
    """What its leaderboards lack is a note, where the command line selects the cases."""
    against = {"grb_rank_against": INI, "grb_min_rank": INI}
    own = settings(home / "nowhere")
    found = prepare(replace(own, origins=own.origins | against), own.cases())
    assert found.opponents == {}
    assert "there is no measured leaderboard of tiny" in found.notes[0]
    other = settings(home, attacks=(("modification", "dice"),))
    asked = other.origins | against | {"grb_dataset": INI, "grb_attack": COMMAND_LINE}
    assert (
        "none of the selected cases"
        in prepare(replace(other, origins=asked), other.cases()).notes[0]
    )
    for origins in (own.origins | against | {"grb_dataset": INI}, own.origins):
        with pytest.raises(UsageError, match="no measured leaderboard"):
            prepare(replace(own, origins=origins), own.cases())
    alone = settings(home, against=Against(), origins=own.origins | {"grb_min_rank": INI})
    assert prepare(alone, alone.cases()).opponents == {}


def test_limits_of_the_ini_file_may_be_about_other_datasets_and_models(home: Path) -> None:
    """About those that the command line does not name today; not about what there is not."""
    lines = tuple(RankLimit(f"{each}/full", 1) for each in ("grb-cora", "old@mine", "net@tiny"))
    own = settings(home, lines)
    ini = replace(own, origins=own.origins | {"grb_min_rank": INI})
    prepare(ini, ini.cases())
    with pytest.raises(UsageError, match="'grb-cora/full' matches no dataset"):
        prepare(own, own.cases())
    both = replace(ini, origins=dict.fromkeys(ini.origins, INI))
    with pytest.raises(UsageError, match="'old@mine/full' matches no dataset"):
        prepare(both, both.cases())
    sets = replace(both, rank_limits=(RankLimit("proteins/full", 1),))
    prepare(sets, sets.cases())
    wrong = replace(ini, rank_limits=(RankLimit("mine/fulll", 1),))
    with pytest.raises(UsageError, match="'\\*/fulll' matches no dataset"):
        prepare(wrong, wrong.cases())
    default = replace(own, rank_limits=(), origins=dict.fromkeys(own.origins, DEFAULT))
    prepare(default, default.cases())


def test_a_limit_that_cannot_be_judged_is_refused(home: Path) -> None:
    """Nothing to rank against, or a leaderboard that lacks the difficulty."""
    alone = settings(home, against=Against())
    with pytest.raises(UsageError, match="--grb-min-rank needs something to rank against"):
        prepare(alone, alone.cases())
    wide = settings(home, (RankLimit("tiny/*", 1),), difficulties=("easy", "full"))
    with pytest.raises(UsageError, match="is about tiny/easy, and none of its selected attacks"):
        prepare(wide, wide.cases())


@pytest.mark.parametrize(
    ("place", "stopped", "passed", "message"),
    [
        (Place(group=NET, name="net", deselected=1), False, None, "1 case was deselected"),
        (Place(group=NET, name="net", lost=("x",), why_none="lost"), True, None, "stopped before"),
        (Place(group=NET, name="net", lost=("x",), why_none="lost"), False, False, "lost; limit 2"),
        (Place(group=NET, name="net", why_none="ill"), True, False, "no rank: ill; limit 2 by"),
        (Place(group=NET, name="net"), False, False, "no other model of the run has a rank"),
    ],
)
def test_a_limit_without_a_rank_is_never_kept(
    home: Path, place: Place, *, stopped: bool, passed: bool | None, message: str
) -> None:
    """It fails with the reason, or is not judged where the user or a stop left cases out."""
    own = settings(home)
    (verdict,) = prepare(own, own.cases()).verdicts(Ranks(places=(place,)), stopped)
    assert (verdict.passed, verdict.rank) == (passed, None)
    assert message in verdict.message


def test_a_rank_among_models_is_not_judged_where_a_stop_left_others_out(home: Path) -> None:
    """It would be the rank among those that came back before the run stopped."""
    models = tuple(ModelSpec(label=label, target="m:net", args={}) for label in ("net", "other"))
    own = settings(home, models=models, against=Against())
    here, there = (Group(label, "tiny", "full", several=True) for label in ("net", "other"))
    found = Ranks(
        places=(
            Place(group=here, name="net"),
            Place(group=there, name="other", lost=("x",), why_none="lost"),
        )
    )
    verdicts = prepare(own, own.cases()).verdicts(found, stopped=True)
    assert [each.passed for each in verdicts] == [None, None]
    verdicts = prepare(own, own.cases()).verdicts(found, stopped=False)
    assert [each.passed for each in verdicts] == [False, False]


def test_models_that_were_left_out_make_the_rank_among_models_another(home: Path) -> None:
    """All of them have to have run in full, where no leaderboard is named."""
    models = tuple(ModelSpec(label=label, target="m:net", args={}) for label in ("net", "other"))
    own = settings(home, models=models, against=Against())
    place = Place(group=replace(NET, several=True), name="net")
    (verdict,) = prepare(own, own.cases()).verdicts(Ranks(places=(place,)), stopped=False)
    assert verdict.passed is None
    assert verdict.message == "rank on net@tiny/full not judged: 2 cases were deselected"


def test_a_part_of_a_run_judges_no_rank(home: Path) -> None:
    """It says which part it is, and what judges."""
    own = settings(home, shard=Shard(2, 4))
    place = Place(group=NET, name="net")
    (verdict,) = prepare(own, own.cases()).verdicts(Ranks(places=(place,)), stopped=False)
    assert verdict.passed is None
    assert "part 2/4 of a run; python -m grb_check merge judges it" in verdict.message
