"""Budget curves, the worst of several attacks, and diagnostics, as a user sees them."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from typing import Any

import pytest
from plugin_names import TINY

# The figures do not matter here, so that nothing needs to be trained for them.
MODEL = ("--grb-model=attacks:untrained", "--grb-min-clean=0", "--grb-max-drop=1")
BASE = (*TINY, *MODEL, "--grb-difficulty=easy")


def record(project: pytest.Pytester, name: str) -> dict[str, Any]:
    return json.loads((project.path / name).read_text())


def figures(run_record: dict[str, Any]) -> dict[str, Any]:
    """Repeats by case, without what may differ between runs."""
    timing = ("seconds", "training_seconds", "from_store", "measured_before")
    return {
        case["id"]: [
            {key: value for key, value in repeat.items() if key not in timing}
            for repeat in case["outcome"]["repeats"]
        ]
        for case in run_record["cases"]
    }


@pytest.mark.slow
def test_budgets_make_curves_and_the_worst_goes_along(project: pytest.Pytester) -> None:
    """The figures are the same for `worst` alone, and in reverse order without a store."""
    attacks = "--grb-attack=modification/rnd,dice,modification/worst"
    args = [*BASE, attacks, "--grb-budget=20%,0.05"]
    result = project.runpytest(*args, "--grb-json=a.json", "--junitxml=a.xml")
    result.assert_outcomes(passed=6)
    result.stdout.fnmatch_lines(
        [
            "grb budget: *0.05* (command line)",
            "*easy*modification/rnd+budget=0.05*pass*",
            "*easy*modification/rnd+budget=0.2*pass*",
            "*easy*modification/worst+budget=0.05*pass*",
            "*easy*modification/worst+budget=0.2*pass*",
            "drop by budget, tiny/easy/modification/dice: 0.05 -> *%, 0.2 -> *%",
            "drop by budget, tiny/easy/modification/worst: 0.05 -> *%, 0.2 -> *%",
            "note: worst case per target: *% of the targets stay right *budget=0.05)",
            "note: worst of 2 (rnd, dice): * (*tiny/easy/modification/worst+budget=0.*)",
        ]
    )
    first = record(project, "a.json")
    assert first["settings"]["budgets"] == [0.05, 0.2]
    cases = {case["id"]: case for case in first["summary"]["cases"]}
    curves = {curve["attack"]: curve["points"] for curve in first["summary"]["curves"]}
    assert set(curves) == {"rnd", "dice", "worst"}
    for attack, points in curves.items():
        for point in points:
            one = cases[f"tiny/easy/modification/{attack}+budget={point['budget']}"]
            assert {name: one[name] for name in point} == point
    _check_properties(project, cases)
    alone = "easy/modification/worst+budget=0.2"
    project.runpytest(*args, "--grb-json=b.json", f"grb::tiny::test_attack[{alone}]")
    assert figures(record(project, "b.json")) == {f"tiny/{alone}": figures(first)[f"tiny/{alone}"]}
    project.makeconftest(
        """
        import pytest
        @pytest.hookimpl(trylast=True)
        def pytest_collection_modifyitems(items): items.reverse()
        """
    )
    project.runpytest(*args, "--grb-store=off", "--grb-json=c.json").assert_outcomes(passed=6)
    assert figures(record(project, "c.json")) == figures(first)


def _check_properties(project: pytest.Pytester, cases: dict[str, Any]) -> None:
    suite = ET.parse(project.path / "a.xml").getroot()[0]
    wide = {prop.get("name"): prop.get("value") for prop in suite.find("properties")}
    curve = wide["grb.curve.tiny/easy/modification/worst"]
    assert [point.split()[0] for point in curve.split(", ")] == ["0.05", "0.2"]
    for case in suite.findall("testcase"):
        case_properties = {prop.get("name"): prop.get("value") for prop in case.find("properties")}
        assert case_properties["grb.method"] == "black-box"
        assert case_properties["grb.case"].endswith(f"+budget={case_properties['grb.budget']}")
        if "/worst" in case_properties["grb.case"]:
            expected = cases[case_properties["grb.case"]]["per_target"]
            assert float(case_properties["grb.per_target_accuracy"]) == pytest.approx(
                expected, abs=1e-5
            )
            assert case_properties["grb.worst_attack"] in ("rnd", "dice")


def test_findings_are_reported_and_are_failures_in_strict_mode(project: pytest.Pytester) -> None:
    """With a flag or in the ini file. The attack injects one of three nodes."""
    args = [*BASE, "--grb-attack=attacks:Average"]
    message = "budget-unused*1 of *injected nodes used (limit 90%)*/diagnostics.md#budget-unused"
    result = project.runpytest(*args, "--junitxml=out.xml", "--grb-json=out.json")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["*easy*injection/average*pass ?", "diagnostic: budget-unused (tiny/easy/injection/av*"]
    )
    case = ET.parse(project.path / "out.xml").getroot()[0].find("testcase")
    properties = [(prop.get("name"), prop.get("value")) for prop in case.find("properties")]
    (diagnostic,) = [value for name, value in properties if name == "grb.diagnostic"]
    assert diagnostic.startswith("budget-unused: 1 of ")
    (repeat,) = record(project, "out.json")["cases"][0]["outcome"]["repeats"]
    assert diagnostic == f"budget-unused: {repeat['diagnostics'][0]['text']}"
    result = project.runpytest(*args, "--grb-strict-diagnostics", "-v")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "grb strict-diagnostics (command line)",
            "*FAILED (budget-unused)*",
            f"diagnostics: {message}*",
            "*average*fail (budget-unused)",
        ]
    )
    project.makepyprojecttoml("[tool.pytest]\ngrb_strict_diagnostics = true\n")
    project.runpytest(*args).assert_outcomes(failed=1)
    project.runpytest(*args[:-1], "--grb-attack=injection/rnd").assert_outcomes(passed=1)
