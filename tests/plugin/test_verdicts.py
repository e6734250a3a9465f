"""Verdicts as a user sees them: cases without a limit, warnings, inconclusive comparisons."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from typing import Any

import pytest
from plugin_names import TINY

from grb_check.gate.default_limit import ALPHA, SHARED

# An untrained model costs no training, and guesses: it has nothing to lose.
BASE = (*TINY, "--grb-model=attacks:untrained", "--grb-min-clean=0")
RND = ("--grb-attack=injection/rnd", "--grb-difficulty=easy")
REPEATED = ("grb.repeats", "grb.relative_drop")
FILES = (
    "--grb-json=run.json",
    "--junitxml=run.xml",
    "--grb-html=run.html",
    "--grb-markdown=run.md",
    "--grb-junit=view.xml",
)


def verdicts(project: pytest.Pytester) -> list[dict[str, Any]]:
    """Verdicts of the record."""
    cases = json.loads((project.path / "run.json").read_text())["cases"]
    return [case["verdict"] for case in cases]


def check_reports(project: pytest.Pytester, word: str, reason: str) -> None:
    """Every report has the verdict and the reason."""
    (verdict,) = verdicts(project)
    assert verdict["result"] == word
    case = ET.parse(project.path / "run.xml").getroot()[0].find("testcase")
    assert case is not None
    case_properties = {prop.get("name"): prop.get("value") for prop in case.iter("property")}
    assert case_properties["grb.verdict"] == word
    for name in ("run.html", "run.md", "view.xml"):
        assert reason in (project.path / name).read_text(), name


def test_a_case_whose_limit_could_not_fail_has_none(project: pytest.Pytester) -> None:
    """It is measured, and one line says how to set a limit."""
    result = project.runpytest(*BASE, *RND, *FILES, "-v")
    assert result.parseoutcomes() == {"measured": 1}
    result.stdout.fnmatch_lines(
        [
            "grb::tiny::test_attack* MEASURED (drop *%)*",
            "*easy *injection/rnd * -  *measured",
            "note: 1 case (tiny/easy/injection/rnd) only measured: *--grb-max-drop*",
        ]
    )
    check_reports(project, "measured", "untrained")
    assert [verdict["limit"] for verdict in verdicts(project)] == [None]


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--grb-jobs=2",)])
def test_a_case_fails_on_no_fewer_than_six_repeats(
    project: pytest.Pytester, more: tuple[str, ...]
) -> None:
    """Though the run has one; what reports show are the figures of all six."""
    brittle = [option.replace("untrained", "brittle") for option in BASE]
    result = project.runpytest(*brittle, *RND, *FILES, *more)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["note: 1 case (tiny/easy/injection/rnd) measured in 6 repeats: *"])
    check_reports(project, "fail", "limit")
    record = json.loads((project.path / "run.json").read_text())
    assert record["settings"]["repeats"] == 1
    outcome = record["cases"][0]["outcome"]
    assert [repeat["seed"] for repeat in outcome["repeats"]] == [*range(6)]
    case = ET.parse(project.path / "run.xml").getroot()[0].find("testcase")
    assert case is not None
    values = [prop.get("value") for prop in case.iter("property") if prop.get("name") in REPEATED]
    assert values == ["6", f"{record['summary']['cases'][0]['drop']:.6f}"]


def test_a_threshold_that_warns_is_reported_and_does_not_fail(project: pytest.Pytester) -> None:
    """In all reports; a later threshold without the word fails."""
    warns = "--grb-threshold=*/rnd = 1% warn"
    brittle = [option.replace("untrained", "brittle") for option in BASE]
    result = project.runpytest(*brittle, *RND, *FILES, warns, "-v")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "grb threshold: [*]/rnd*1%* warn (command line)",
            "grb::tiny::test_attack* PASSED (drop *, warn)*",
            "*easy *injection/rnd *warn*",
            "note: 1 case (tiny/easy/injection/rnd) over a threshold that only warns",
        ]
    )
    check_reports(project, "warn", "limit 1.0%")
    fails = "--grb-threshold=tiny/* = 1%"
    project.runpytest(*brittle, *RND, warns, fails).assert_outcomes(failed=1)
    wrong = project.runpytest(*BASE, *RND, "--grb-threshold=* = 30% maybe")
    wrong.stderr.fnmatch_lines(["*only 'warn' may stand, not 'maybe'*"])


@pytest.mark.slow
def test_inconclusive_comparisons_fail_where_that_is_asked_for(project: pytest.Pytester) -> None:
    """One repeat of a retrained model is always inconclusive."""
    project.makepyfile(
        narrow="""
        import models

        def build(num_features, num_classes):
            return models.Net(num_features, num_classes, 8)
        """
    )
    base = (*TINY, *RND, "--grb-baseline=kept.json")
    project.runpytest(*base, "--grb-model=models:build", "--grb-update-baseline")
    other = (*base, "--grb-model=narrow:build", "--grb-min-clean=0", "--grb-max-drop=1")
    project.runpytest(*other).assert_outcomes(passed=3)  # and all cases jointly, and clean
    strict = project.runpytest(*other, "--grb-inconclusive=fail", "--grb-json=run.json")
    strict.assert_outcomes(failed=1, passed=2)
    strict.stdout.fnmatch_lines(
        [
            "grb inconclusive: fail (command line)",
            "*easy *injection/rnd *fail (undecided)*",
        ]
    )
    assert [verdict["inconclusive"] for verdict in verdicts(project)] == [True]
    wrong = project.runpytest(*other, "--grb-inconclusive=maybe")
    wrong.stderr.fnmatch_lines(["*unknown --grb-inconclusive 'maybe'; allowed: pass, fail*"])


@pytest.mark.slow
def test_all_cases_of_a_run_share_the_level_of_the_default_limit(project: pytest.Pytester) -> None:
    """Users' own tests, deselected cases and those of other shards included."""
    project.makepyfile(
        test_own="""
        import pytest

        @pytest.mark.grb(dataset="./tiny", difficulty="easy", attack="injection/rnd", repeats=1)
        def test_mine(grb_verdict):
            assert grb_verdict.passed
        """
    )
    args = [*(option for option in BASE if option != "--grb-only"), "--grb-attack=injection/rnd"]
    options = ["--grb-difficulty=easy,medium,hard", "--grb-json=run.json"]
    for more in ([], ["-k", "mine or easy"], ["--grb-shard=1/2"], ["-n", "1"]):
        project.runpytest(*args, *options, *more)
        assert {verdict["alpha"] for verdict in verdicts(project)} == {ALPHA / 4**SHARED}, more
    project.runpytest(*args, *options, "--grb-only")
    assert {verdict["alpha"] for verdict in verdicts(project)} == {ALPHA / 3**SHARED}
