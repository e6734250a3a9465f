"""--grb-history: each whole run, and each merge, appends a line."""

from __future__ import annotations

import json

import pytest
from plugin_names import UNTRAINED, needs_full

from grb_check.__main__ import main
from grb_check.reports.history import read


@pytest.fixture(autouse=True)
def _commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_SHA", "cd" * 20)


def test_each_run_appends_a_line(project: pytest.Pytester) -> None:
    """One that passes, one whose case fails; a run of no case and --collect-only add none."""
    history = "--grb-history=kept/runs.jsonl"
    assert project.runpytest(*UNTRAINED, history).ret == 0
    failing = [*UNTRAINED, history, "--grb-min-clean=1", "--grb-evidence=off"]
    assert project.runpytest(*failing).ret == pytest.ExitCode.TESTS_FAILED
    project.runpytest(*UNTRAINED, history, "--collect-only")
    project.makepyfile(test_other="def test_other(): pass")
    project.runpytest(history, "test_other.py", "-p", "no:randomly")
    runs = read(project.path / "kept" / "runs.jsonl").runs
    assert [each.passed for each in runs] == [True, False]
    assert {each.commit for each in runs} == {"cd" * 20}
    for each in runs:
        assert [case.id for case in each.cases] == [
            "tiny/easy/injection/rnd",
            "tiny/easy/modification/rnd",
        ]
        assert all(case.drop is not None and case.limit == 1.0 for case in each.cases)


def test_a_run_that_was_narrowed_or_stopped_adds_no_line(project: pytest.Pytester) -> None:
    """The other cases would look as if they were gone."""
    for args in (["-k", "modification"], ["-x", "--grb-min-clean=1", "--grb-evidence=off"]):
        result = project.runpytest(*UNTRAINED, "--grb-history=runs.jsonl", *args)
        result.stdout.fnmatch_lines(["*no line in *runs.jsonl: 1 case of the run did not run*"])
    assert not (project.path / "runs.jsonl").exists()


def test_another_file_is_not_taken_for_a_history(project: pytest.Pytester) -> None:
    """A line at its end would damage it."""
    (project.path / "run.json").write_text('{"kind": "run record"}')
    result = project.runpytest(*UNTRAINED, "--grb-history=run.json")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--grb-history *run.json' is there and is not a history; give *"])
    assert (project.path / "run.json").read_text() == '{"kind": "run record"}'


def test_a_part_is_refused_and_the_merge_appends(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A part with the history of the ini file runs, and leaves it to the merge."""
    refused = project.runpytest(*UNTRAINED, "--grb-shard=1/2", "--grb-history=runs.jsonl")
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    refused.stderr.fnmatch_lines(["*python -m grb_check merge --history=FILE*"])
    project.makeini("[pytest]\ngrb_history = runs.jsonl\n")
    for part in (1, 2):
        ran = project.runpytest(*UNTRAINED, f"--grb-shard={part}/2", f"--grb-json={part}.json")
        assert ran.ret == 0
    assert not (project.path / "runs.jsonl").exists()
    monkeypatch.chdir(project.path)
    assert main(["merge", "1.json", "2.json", "--history=runs.jsonl"]) == 0
    (run,) = read(project.path / "runs.jsonl").runs
    assert (len(run.cases), run.passed) == (2, True)


@needs_full
def test_a_history_that_cannot_be_written_costs_no_report(project: pytest.Pytester) -> None:
    """One line at the end, and the run is not green."""
    result = project.runpytest(*UNTRAINED, "--grb-history=/dev/full", "--grb-json=a.json")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=2)
    lines = [each for each in result.outlines if "/dev/full" in each]
    assert lines == ["grb: /dev/full not written: No space left on device"]
    assert len(json.loads((project.path / "a.json").read_text())["cases"]) == 2


def test_a_path_that_cannot_be_written_is_refused_before_the_run(project: pytest.Pytester) -> None:
    """As those of reports; nor is it the file of another one."""
    for path, words in (("tiny", "*--grb-history *cannot be written*"), ("a.json", "*same file*")):
        result = project.runpytest(*UNTRAINED, f"--grb-history={path}", "--grb-json=a.json")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([words])
