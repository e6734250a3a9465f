"""Raw option values become one frozen object, with the origin of each."""

from __future__ import annotations

from pathlib import Path

import pytest
from settings_factory import settings

from grb_check.errors import UsageError
from grb_check.ranking.comparison_models import ComparisonModels
from grb_check.settings.option_table import COMMAND_LINE, DEFAULT, INI
from grb_check.settings.reading import STORE_VARIABLE


def test_nothing_given_is_the_smoke_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing to configure."""
    monkeypatch.delenv(STORE_VARIABLE, raising=False)
    made = settings(tmp_path, model=["mypkg:build"])
    assert [source.name for source in made.datasets] == ["synthetic-cora"]
    assert made.repeats == 3
    assert made.store == tmp_path / ".grb_check"
    assert set(made.origins.values()) == {COMMAND_LINE, DEFAULT}
    assert len(made.cases()) == 15


def test_the_command_line_wins_over_the_ini_file(tmp_path: Path) -> None:
    """And the origin says so."""
    made = settings(tmp_path, ini={"repeats": 5, "suite": "standard"}, repeats="2")
    assert (made.repeats, made.origins["grb_repeats"]) == (2, COMMAND_LINE)
    assert (made.suite, made.origins["grb_suite"]) == ("standard", INI)


def test_lists_are_repeated_or_separated_by_commas(tmp_path: Path) -> None:
    """And come out in the catalogue's order, each once."""
    made = settings(tmp_path, difficulty=["hard,easy", "easy"], attack=["fgsm", "dice"])
    assert made.difficulties == ("easy", "hard")
    assert made.attacks == (("injection", "fgsm"), ("modification", "dice"))


def test_patterns_name_attacks_in_any_spelling(tmp_path: Path) -> None:
    """In --grb-case and in thresholds."""
    written, spelled = "*/fgsm+patience=none+iterations=5", "*/fgsm+iterations=5+patience=none"
    made = settings(tmp_path, attack=[written[2:]], case=[written], threshold=[f"{written}=0.3"])
    assert made.patterns == (spelled,)
    assert [each.pattern for each in made.gate.thresholds] == [spelled]
    assert {case.attack for case in made.cases()} == {spelled[2:]}


def test_ranks_are_asked_for_by_words_and_lines(tmp_path: Path) -> None:
    """Paths of the ini file start at the root folder; lines and lists with commas mix."""
    made = settings(
        tmp_path,
        ini={"min_rank": ["*/full = 5", "a/easy=1,b/easy=2"], "rank_against": ["published,x.json"]},
    )
    assert made.comparison_models == ComparisonModels(published=True, files=(tmp_path / "x.json",))
    assert [(each.pattern, each.rank) for each in made.rank_limits] == [
        ("*/full", 5),
        ("a/easy", 1),
        ("b/easy", 2),
    ]
    given = settings(tmp_path, rank_against=["./x.json", "gat"])
    assert given.comparison_models == ComparisonModels(
        defences=("gat",), files=(tmp_path / "sub" / "x.json",)
    )
    assert not settings(tmp_path).comparison_models
    with pytest.raises(UsageError, match="--grb-rank-against was given without a value"):
        settings(tmp_path, rank_against=[""])
