"""`python -m grb_check report`: reports of run records."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from junit_files import complaints, suites
from record_factory import file_of, rich

from grb_check.__main__ import main


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = tmp_path / "run.json"
    path.write_text(file_of(rich()), encoding="utf-8")
    return path


def test_the_summary_goes_to_the_standard_output(
    run: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """If no path is given; the exit code does not depend on the verdicts."""
    assert main(["report", str(run)]) == 0
    out, err = capsysbinary.readouterr()
    assert out.decode().split("\n", 1)[1].startswith("## ❌ Graph robustness: 4 of 16 cases passed")
    assert err == b""


def test_the_paths_that_were_written_are_printed(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their folders are created."""
    paths = [str(tmp_path / "out" / name) for name in ("a.xml", "a.html", "a.md")]
    flags = ("--junit", "--html", "--markdown")
    pairs = [each for pair in zip(flags, paths, strict=True) for each in pair]
    assert main(["report", str(run), *pairs]) == 0
    assert capsys.readouterr().out.split() == paths
    assert complaints(Path(paths[0]).read_text()) == []


def test_drops_are_written_for_github_action_benchmark(run: Path, tmp_path: Path) -> None:
    """To a path of its own; the Markdown does not go to the standard output then."""
    assert main(["report", str(run), f"--benchmark-json={tmp_path / 'drops.json'}"]) == 0
    found = json.loads((tmp_path / "drops.json").read_text("utf-8"))
    assert {each["unit"] for each in found} == {"% drop"}


def test_several_runs_make_one_report(run: Path, tmp_path: Path) -> None:
    """Each named after its file."""
    other = tmp_path / "other.json"
    other.write_text(run.read_text())
    assert main(["report", str(run), str(other), "--junit", str(tmp_path / "a.xml")]) == 0
    names = [each.name for each in suites((tmp_path / "a.xml").read_text())]
    assert names == ["run: synthetic-cora", "other: synthetic-cora"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["none.json"], "No such file"),
        (["{run}", "{run}"], "given twice"),
        (["{run}", "--html", "{folder}"], "--html"),
        (["{run}", "--junit", "{run}/a.xml"], "--junit"),
        (["{run}", "--html={folder}/a", "--junit={folder}/./a"], "are the same file"),
        (["{run}", "--html", "-"], "--html '-' does not name a file"),
        (["{run}", "--junit={folder}/new/a.xml", "--html={folder}"], "--html"),
    ],
)
def test_wrong_input_is_a_usage_error(
    run: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    """One line, and pytest's exit code for it."""
    filled = [each.format(run=run, folder=run.parent) for each in arguments]
    assert main(["report", *filled]) == 4
    err = capsys.readouterr().err
    assert words in err
    assert err.count("\n") == 1
    assert list(run.parent.iterdir()) == [run]


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="no /dev/full")
def test_a_report_that_fails_costs_no_other(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1, and one line that names it."""
    path = tmp_path / "a.md"
    assert main(["report", str(run), "--html=/dev/full", f"--markdown={path}"]) == 1
    out, err = capsys.readouterr()
    assert (out, err) == (
        f"{path}\n",
        "grb_check: /dev/full not written: No space left on device\n",
    )
    assert "\n## " in path.read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_report_on_the_standard_output_is_alone_there(run: Path, tmp_path: Path) -> None:
    """The path is not printed after it."""
    command = [sys.executable, "-m", "grb_check", "report", str(run)]
    with (tmp_path / "out.html").open("wb") as stream:
        subprocess.run([*command, "--html=/dev/stdout"], stdout=stream, check=True)
    assert main(["report", str(run), f"--html={tmp_path / 'again.html'}"]) == 0
    assert (tmp_path / "out.html").read_bytes() == (tmp_path / "again.html").read_bytes()
