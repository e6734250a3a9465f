"""`python -m grb_check leaderboard`."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import board_models
import pytest
from board_bench import Bench

from grb_check.__main__ import main
from grb_check.ranking.boards.files import measured_board, read_board

Run = Callable[..., int]


@pytest.fixture
def run(bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """The command on the tiny dataset, by default with one attack at one difficulty."""
    monkeypatch.setenv("GRB_CHECK_DATA", str(tmp_path / "home"))
    monkeypatch.setenv("GRB_CHECK_STORE", str(bench.store))

    def command(*more: str) -> int:
        given = [f"--dataset={bench.dataset}", "--repeats=2", "--attacks=injection/rnd"]
        return main(["leaderboard", *given, "--difficulties=easy", "--device=cpu", *more])

    return command


def test_it_writes_the_board_in_three_forms(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the data home, where ranks are looked up; progress goes to stderr."""
    assert run("--models=board_models:good,Mine=board_models:poor") == 0
    captured = capsys.readouterr()
    folder = tmp_path / "home" / "leaderboards"
    written = [folder / f"tiny.{kind}" for kind in ("json", "md", "csv")]
    assert captured.out.split() == list(map(str, written))
    assert "1/2 good easy/injection/rnd (0 s so far)" in captured.err
    board = read_board(written[0])
    assert board.defences == ("good", "Mine")
    assert measured_board("tiny", tmp_path / "home") is not None
    assert "# Leaderboard: tiny" in written[1].read_text("utf-8")
    assert b"\r" not in written[2].read_bytes()
    with written[2].open(newline="") as stream:
        lines = list(csv.DictReader(stream))
    cell = board.cells["injection/rnd", "Mine", "easy"]
    first = next(each for each in lines if each["column"] == "Mine")
    assert float(first["mean"]) == pytest.approx(cell.mean, abs=1e-6)


@pytest.mark.slow
def test_a_larger_board_is_not_written_over(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ranks would be among fewer models; a larger leaderboard may replace it."""
    folder = f"--out={tmp_path}"
    both = "--models=board_models:good,Mine=board_models:poor"
    assert run(both, folder) == 0
    before = (tmp_path / "tiny.json").read_bytes()
    assert run("--models=board_models:good", folder) == 4
    assert "has Mine, which the new leaderboard would not have" in capsys.readouterr().err
    assert (tmp_path / "tiny.json").read_bytes() == before
    assert run("--models=board_models:good", folder, "--name=small") == 0
    assert run(both, folder, "--difficulties=full") == 0
    (tmp_path / "tiny.json").write_text("{}")
    assert run(both, folder) == 4
    assert "remove the file" in capsys.readouterr().err


def test_an_interrupted_command_says_what_is_stored_and_is_resumed(
    run: Run,
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """Ctrl-C in the training of the second model: the first is not trained again."""
    trained: list[int] = []

    def on_fit(module: board_models.Tiny) -> None:
        trained.append(module.steps)
        if len(trained) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(board_models, "on_fit", on_fit)
    models = "--models=board_models:good,board_models:poor"
    assert run(models) == 130
    captured = capsys.readouterr()
    assert f"interrupted; kept in {bench.store}: 1 of 2 cases, and the same command" in captured.err
    assert captured.out == ""
    assert not (tmp_path / "home" / "leaderboards").exists()
    assert run(models) == 0
    assert trained == [20, 20, 1, 1, 1, 1]  # steps: good, good; poor, poor; poor, poor again
    assert "results from an earlier run: 1 of 2 cases" in capsys.readouterr().err
    trained[:] = [0] * 4
    assert run(models, "--fresh") == 0
    assert trained[4:] == [20, 20, 1, 1]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--models=gnc", "unknown reference model 'gnc'"),
        ("--models=board_models:goood", "nearest: good"),
        ("--models=board_models:broken", "no model is left"),
        ("--attacks=injection/pdg", "did you mean 'injection/pgd'"),
        ("--difficulties=eazy", "did you mean 'easy'"),
        ("--repeats=none", "--repeats: 'none' is not a number of repeats"),
        ("--name=a/b", "--name 'a/b' cannot be the name of a file"),
        ("--dataset=grb-coar", "did you mean grb-cora?"),
        ("--device=cuda:99", "device 'cuda:99' cannot be used here"),
        (f"--out={__file__}", "--out"),
        (f"--store={__file__}/x", "--store"),
        ("--data=nowhere", "--data: 'nowhere' is not a directory"),
    ],
)
def test_an_error_is_one_message(
    run: Run, option: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1, before any training."""
    assert run("--models=board_models:broken", option) == 4
    captured = capsys.readouterr()
    assert captured.err.splitlines()[-1].startswith("grb_check: ") or "\n  File" in captured.err
    assert message in captured.err
    assert captured.out == ""
