"""Raw option values become one frozen object, with the origin of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from settings_factory import settings

from grb_check.errors import UsageError
from grb_check.ranking.comparison_models import ComparisonModels
from grb_check.settings.options import COMMAND_LINE, DEFAULT, INI
from grb_check.settings.parsers import STORE_VARIABLE
from grb_check.settings.selecting import cases_of
from grb_check.store.place import StorePlace


def test_nothing_given_is_the_smoke_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing to configure."""
    monkeypatch.delenv(STORE_VARIABLE, raising=False)
    options = settings(tmp_path, model=["mypkg:build"])
    assert [source.name for source in options.datasets] == ["synthetic-cora"]
    assert options.repeats == 3
    assert options.execution.store == StorePlace(str(tmp_path / ".grb_check"))
    assert set(options.origins.values()) == {COMMAND_LINE, DEFAULT}
    assert len(cases_of(options)) == 18


def test_the_command_line_wins_over_the_ini_file(tmp_path: Path) -> None:
    """And the origin says so."""
    options = settings(tmp_path, ini={"repeats": 5, "suite": "standard"}, repeats="2")
    assert (options.repeats, options.origins["grb_repeats"]) == (2, COMMAND_LINE)
    assert (options.suite, options.origins["grb_suite"]) == ("standard", INI)


def test_a_store_is_a_place_of_builtin_types(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its path is absolute wherever it is given, so that any process can open it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(STORE_VARIABLE, "shared")
    assert settings(tmp_path).execution.store == StorePlace(str(tmp_path / "shared"))
    read_only = settings(tmp_path, ini={"store": "kept?mode=read"}).execution.store
    assert read_only == StorePlace(str(tmp_path / "kept"), read_only=True)
    assert settings(tmp_path, store="off").execution.store is None
    with pytest.raises(UsageError, match=r"--grb-store '.*kept\?mode=write': .* \?mode=read"):
        settings(tmp_path, store="kept?mode=write")


def test_a_timeout_needs_workers(tmp_path: Path) -> None:
    """Whose tasks it ends; this process measures by itself."""
    options = settings(tmp_path, timeout="60", jobs="1")
    assert (options.execution.timeout, options.execution.jobs) == (60, 1)
    with pytest.raises(UsageError, match=r"--grb-timeout ends .*; give --grb-jobs=1"):
        settings(tmp_path, timeout="60")


def test_an_option_without_its_partner_is_refused(tmp_path: Path) -> None:
    """It would have no effect; in the ini file it waits for the partner."""
    with pytest.raises(UsageError, match=r"--grb-margin is of a comparison.*--grb-base=REV"):
        settings(tmp_path, margin="3")
    with pytest.raises(UsageError, match="--grb-inconclusive is of a comparison"):
        settings(tmp_path, inconclusive="fail")
    assert settings(tmp_path, margin="3", base="main").margin == 3
    assert settings(tmp_path, margin="3", shard="1/2").margin == 3
    assert settings(tmp_path, ini={"margin": "3", "inconclusive": "fail"}).margin == 3
    with pytest.raises(UsageError, match=r"--grb-shrink reduces .* --grb-evidence is off"):
        settings(tmp_path, shrink=True, evidence="off")
    assert settings(tmp_path, ini={"shrink": True}, evidence="off").execution.shrink


def test_a_baseline_of_the_ini_file_can_be_switched_off(tmp_path: Path) -> None:
    """And no file of that name is written."""
    options = settings(tmp_path, ini={"baseline": "kept.json"}, baseline="off")
    assert (options.baseline, options.repeats) == ("", 3)
    assert options.origins["grb_repeats"] == DEFAULT


def test_lists_are_repeated_or_separated_by_commas(tmp_path: Path) -> None:
    """And come out in the catalogue's order, each once."""
    options = settings(tmp_path, difficulty=["hard,easy", "easy"], attack=["fgsm", "dice"])
    assert options.difficulties == ("easy", "hard")
    assert options.attacks == (("injection", "fgsm"), ("modification", "dice"))


def test_ranks_are_asked_for_by_words_and_lines(tmp_path: Path) -> None:
    """Paths of the ini file start at the root folder; lines and lists with commas mix."""
    options = settings(
        tmp_path,
        ini={"rank_against": ["published", "x.json,y.json"]},
    )
    assert options.comparison_models == ComparisonModels(
        published=True, files=(str(tmp_path / "x.json"), str(tmp_path / "y.json"))
    )
    given = settings(tmp_path, rank_against=["./x.json", "gat"])
    assert given.comparison_models == ComparisonModels(
        defences=("gat",), files=(str(tmp_path / "sub" / "x.json"),)
    )
    assert not settings(tmp_path).comparison_models
    with pytest.raises(UsageError, match="--grb-rank-against was given without a value"):
        settings(tmp_path, rank_against=[""])


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("max_drop", "-5%", r"'-5%' is not a fraction; give a number from 0 to 1, such as"),
        ("min_clean", "-0.5", "'-0.5' is not a fraction; give a number from 0 to 1"),
        ("threshold", ["*=-5%"], "'-5%' is not a fraction; give a number from 0 to 1"),
        ("repeats", "9" * 20, "is not a number of repeats; give a whole number from 1 to 10,000"),
        ("repeats", "9" * 5000, "is not a number of repeats; give a whole number from 1 to 10,000"),
        ("repeats", "٣", "'٣' is not a number of repeats; give a whole number from 1 to 10,000"),
        ("device", "cuda:" + "9" * 20, "after ':' a number from 0 to 127 may follow"),
        ("device", "cuda:٣", "after ':' a number from 0 to 127 may follow"),
        ("device", "auto:1", "none after auto; write it as in 'cuda:0'"),
        ("dataset", ["x" * 5000], "a name consists of up to 100 letters, digits"),
        ("shard", "٣/٣", "is not a shard; give I/N with I from 1 to N and N up to 10,000"),
        *(
            (name, value, f"grb.{name.replace('_', '.')} was given without a value; give one or")
            for name in ("store", "evidence", "pack")
            for value in ("", "  ")
        ),
        ("threshold", [""], "--grb-threshold was given without a value; give one or leave it out"),
    ],
)
def test_a_value_out_of_range_is_refused_with_the_range(
    tmp_path: Path, option: str, value: Any, message: str
) -> None:
    """Before any work, from wherever it comes; the message names the flag or the ini value."""
    with pytest.raises(UsageError, match=message):
        settings(tmp_path, model=["a:b"], **{option: value})
    if not isinstance(value, list):
        with pytest.raises(UsageError, match=message) as caught:
            settings(tmp_path, ini={option: value}, model=["a:b"])
        assert str(caught.value).startswith((f"grb_{option}", "--grb-shard"))


def test_passwords_of_urls_are_not_among_what_was_given(tmp_path: Path) -> None:
    """The header of a run and its record show it."""
    options = settings(tmp_path, ini={"sources": ["https://me:secret@mirror.example/{name}.zip"]})
    assert options.given == {"grb_sources": "https://mirror.example/{name}.zip"}
    assert options.places.sources == ("https://me:secret@mirror.example/{name}.zip",)
