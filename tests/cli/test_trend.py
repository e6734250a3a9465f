"""`python -m grb_check trend`."""

from __future__ import annotations

from pathlib import Path

import pytest
from history_factory import past_run

from grb_check.__main__ import main
from grb_check.reports.history import encode


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A history of three runs."""
    path = tmp_path / "runs.jsonl"
    lines = [encode(past_run(day, [0.1]), "0.1.0") for day in range(3)]
    path.write_text("\n".join(lines) + "\n")
    monkeypatch.chdir(tmp_path)
    return path


def test_the_page_is_written(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And named; the history stays as it is."""
    before = history.read_bytes()
    assert main(["trend", "runs.jsonl", "--html=out/trend.html"]) == 0
    assert capsys.readouterr().out == "out/trend.html\n"
    assert "3 runs, 2026-03-01 to 2026-03-03" in Path("out/trend.html").read_text("utf-8")
    assert history.read_bytes() == before


def test_the_last_runs_may_be_drawn_alone(history: Path) -> None:
    """More than there are is all of them."""
    for last, words in (
        ("2", "2 runs, 2026-03-02"),
        ("1", "1 run, "),
        ("99", "3 runs, 2026-03-01"),
    ):
        assert main(["trend", "runs.jsonl", "--html=trend.html", "--last", last]) == 0
        assert words in Path("trend.html").read_text("utf-8")


def test_a_line_that_is_cut_short_is_noted(
    history: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The others are drawn."""
    history.write_text(history.read_text() + '{"kind": "run of')
    assert main(["trend", "runs.jsonl", "--html=trend.html"]) == 0
    assert "note: line 4 of history 'runs.jsonl' is not JSON" in capsys.readouterr().err
    assert "3 runs, 2026-03-01" in Path("trend.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["none.jsonl", "--html=a.html"], "No such file"),
        (["runs.jsonl", "--html=."], "--html"),
        (["runs.jsonl", "--html=./runs.jsonl"], "is the history itself"),
        (["runs.jsonl", "--html=a.html", "--last=0"], "--last '0' is not a number of runs"),
        (["runs.jsonl", "--html=a.html", "--last=x"], "--last 'x' is not a number of runs"),
        (["runs.jsonl"], "--html"),
    ],
)
def test_wrong_input_is_a_usage_error(
    history: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    """And nothing is written."""
    before = history.read_bytes()
    try:
        code = main(["trend", *arguments])
    except SystemExit as end:
        code = int(str(end.code))
    assert code == 4
    assert words in capsys.readouterr().err
    assert [*history.parent.iterdir()] == [history]
    assert history.read_bytes() == before
