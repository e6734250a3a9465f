"""A run that is divided into parts, which are merged again."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from differences import differences, timeless
from plugin_names import TINY

from grb_check.__main__ import main
from grb_check.reports.record import OutcomeRecord

ATTACKS = ("--grb-attack=rnd", "--grb-difficulty=easy,hard", "--grb-max-drop=1")
MODEL = "--grb-model=build=attacks:untrained"
RUN = (*TINY, MODEL, *ATTACKS, "--grb-min-clean=0", "--grb-only")
ALL = [
    f"tiny/{level}/{attack}"
    for level in ("easy", "hard")
    for attack in ("injection/rnd", "modification/rnd")
]


@pytest.fixture
def shared(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """The project with a data folder of its own."""
    monkeypatch.setenv("GRB_CHECK_DATA", str(project.path / "home"))
    return project


def record(project: pytest.Pytester, name: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((project.path / name).read_text())
    return read


def ids(project: pytest.Pytester, name: str) -> list[str]:
    return [each["id"] for each in record(project, name)["cases"]]


def lasting(record: OutcomeRecord | None, seconds: float) -> OutcomeRecord:
    """Return the outcome of one repeat with that duration, besides 7 s of training."""
    assert record is not None
    (only,) = record.repeats
    only = replace(only, seconds=seconds + 7.0, training_seconds=7.0)
    return OutcomeRecord.of(replace(record.outcome, repeats=(only,)))


def test_parts_put_together_are_the_run(shared: pytest.Pytester) -> None:
    """For two models with limits on their ranks, which only the whole run can judge."""
    both = (*RUN, "--grb-model=other=attacks:untrained", "--grb-min-rank=tiny/*=2")
    both = (*both, "--grb-case=tiny/easy/*")
    shared.runpytest(*both, "--grb-json=whole.json").assert_outcomes(passed=6)
    for index in (1, 2):
        result = shared.runpytest(*both, f"--grb-shard={index}/2", f"--grb-json={index}.json")
        assert result.ret == 0
        assert len(ids(shared, f"{index}.json")) == 2
        result.assert_outcomes(passed=2)
        result.stdout.fnmatch_lines(
            [
                f"grb shard: {index}/2, 2 of 4 cases, taken as equally long",
                "grb: rank on * not judged: part */2 of a run; python -m grb_check merge judges it",
            ]
        )
    names = [str(shared.path / f"{index}.json") for index in (2, 1)]
    assert main(["merge", *names, "--json", str(shared.path / "all.json")]) == 0
    both = [timeless(record(shared, f"{name}.json")) for name in ("all", "whole")]
    assert differences(*both) == []


def test_parts_of_two_commits_are_not_merged(
    shared: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether the package of the model was changed, or what it imports."""
    folder, names = shared.path, [str(shared.path / f"{index}.json") for index in (1, 2)]

    def run_part(index: int) -> None:
        args = ("--grb-case=tiny/*/injection/rnd", f"--grb-shard={index}/2")
        shared.runpytest(*RUN, *args, f"--grb-json={index}.json").assert_outcomes(passed=1)

    run_part(1)
    run_part(2)
    assert main(["merge", *names]) == 0
    for changed, told in (
        ("models", "different weights of build on tiny for the same seed, though the files,"),
        ("attacks", "different Python files in the package of build (attacks:untrained)"),
    ):
        path = folder / f"{changed}.py"
        before = path.read_text()
        path.write_text(before.replace("width=16", "width=8") + "\n# another commit\n")
        run_part(2)
        path.write_text(before)
        capsys.readouterr()
        assert main(["merge", *names]) == 4
        assert told in capsys.readouterr().err
        assert main(["merge", *names, "--allow-different"]) == 0
        assert told in capsys.readouterr().out


def test_a_part_without_cases_is_green(
    shared: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pipeline may have more parts than cases; each part writes its record."""
    one = (*RUN, "--grb-case=tiny/easy/injection/rnd")
    shared.runpytest(*one, "--grb-shard=1/2", "--grb-json=1.json").assert_outcomes(passed=1)
    result = shared.runpytest(*one, "--grb-shard=2/2", "--grb-json=2.json")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["grb shard: 2/2, 0 of 1 case, *"])
    assert record(shared, "2.json")["shard"]["index"] == 2
    names = [str(shared.path / f"{index}.json") for index in (1, 2)]
    assert main(["merge", *names]) == 0
    assert "grb merge: 2 parts, 1 of 1 case\n" in capsys.readouterr().out
    # What selects no case at all is as wrong as it is in a run that is not cut.
    nothing = shared.runpytest(*RUN, "--grb-shard=1/2", "-k", "nothing")
    assert nothing.ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_node_ids_are_cut_like_any_selection(shared: pytest.Pytester) -> None:
    """The plan has the cases that the ids name."""
    named = [f"grb::tiny::test_attack[{each.removeprefix('tiny/')}]" for each in ALL[:2]]
    for index in (1, 2):
        args = (*RUN, *named, f"--grb-shard={index}/2", f"--grb-json={index}.json")
        shared.runpytest(*args).assert_outcomes(passed=1)
    assert ids(shared, "1.json") + ids(shared, "2.json") == ALL[:2]
    assert [each["id"] for each in record(shared, "1.json")["planned"]] == ALL[:2]


def test_the_repositorys_own_tests_run_in_every_part(shared: pytest.Pytester) -> None:
    """The header says so, and names the option that leaves them out."""
    shared.makepyfile(test_own="def test_own(): pass")
    own = [each for each in RUN if each != "--grb-only"]
    result = shared.runpytest(*own, "--grb-case=tiny/easy/*", "--grb-shard=2/2")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["grb shard: the repository's own tests are not divided *"])
    result = shared.runpytest(*RUN, "--grb-case=tiny/easy/*", "--grb-shard=2/2")
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("grb shard: the repository's own tests*")


def test_cases_that_pytest_deselects_are_recorded(shared: pytest.Pytester) -> None:
    """So that a merge does not count them as lost."""
    args = (*RUN, "--grb-shard=1/1", "-k", "injection", "--grb-json=1.json")
    shared.runpytest(*args).assert_outcomes(passed=2, deselected=2)
    assert record(shared, "1.json")["deselected"] == [ALL[1], ALL[3]]
    assert main(["merge", str(shared.path / "1.json")]) == 0


def test_a_part_without_a_run_is_a_usage_error(shared: pytest.Pytester) -> None:
    """The error comes before any work."""
    for args, message in (
        (("--grb-shard=3/2",), "*'3/2' is not a shard*"),
        (("--grb-shard=auto",), "*'auto' is not a shard*"),
        (
            ("--grb-shard=1/2", "--grb-baseline=none.json"),
            "*cannot be written by shard 1/2 of a run*merge*",
        ),
    ):
        result = shared.runpytest(*RUN, *args)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([message])
