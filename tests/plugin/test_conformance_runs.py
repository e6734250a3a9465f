"""The suite of properties, as a user runs it."""

from __future__ import annotations

import json
import os
import sys
import xml.etree.ElementTree as ET
from typing import Any

import pytest

OWN = """
import torch
import grb_check
import models

class Numbered(models.Mlp):
    def forward(self, x, edge_index):
        return self.linear(x) + torch.arange(len(x)).unsqueeze(1) % 2

def sound(num_features, num_classes):
    return grb_check.Trained(models.Mlp(num_features, num_classes).eval())

def numbered(num_features, num_classes):
    return grb_check.Trained(Numbered(num_features, num_classes).eval())
"""
QUICK = ("--grb-case=permutation-*", "--grb-case=edge-order")
RENAMED = "grb::numbered::test_conformance[permutation-equivariance]"
ORDER = "grb::numbered::test_conformance[edge-order]"


@pytest.fixture
def folder(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder with a sound model and one that reads the numbers of nodes."""
    project.makepyfile(own=OWN)
    monkeypatch.delitem(sys.modules, "own", raising=False)
    return project


def run(folder: pytest.Pytester, *options: str, model: str = "own:numbered") -> pytest.RunResult:
    return folder.runpytest(
        "--grb-only",
        f"--grb-model={model}",
        "--grb-dataset=./tiny",
        "--grb-store=off",
        "-p",
        "no:randomly",
        *options,
    )


def suite(folder: pytest.Pytester, *options: str, model: str = "own:numbered") -> pytest.RunResult:
    return run(folder, "--grb-suite=conformance", *options, model=model)


def properties(case: ET.Element) -> dict[str, str]:
    return {each.get("name", ""): each.get("value", "") for each in case.iter("property")}


def test_each_property_is_a_test(folder: pytest.Pytester) -> None:
    """Collected without training; the ids are those that pytest takes."""
    result = suite(folder, "--collect-only", "-q")
    lines = [line for line in result.outlines if line.startswith("grb::")]
    assert len(lines) == 25
    assert lines[:2] == [RENAMED, ORDER]


def test_a_broken_property_is_shown_with_the_smallest_graph(folder: pytest.Pytester) -> None:
    """As code, in the terminal and in every report; other properties pass."""
    reports = [f"--grb-{kind}=out.{kind}" for kind in ("json", "html", "markdown")]
    result = suite(folder, *QUICK, *reports, "--junitxml=out.xml")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "grb datasets: tiny (command line); 2 properties of suite conformance (command line)",
            "permutation-equivariance: other numbers of nodes only permute the rows of logits",
            "nodes renamed *: row * of the logits differs by 1*",
            "Data(",
            "    x=torch.zeros(2, 8),",
            "    edge_index=torch.empty(2, 0, dtype=torch.int64),",
            "  permutation-equivariance  failed  nodes renamed*",
            "  edge-order                passed*",
            "1 of 2 properties passed; 1 failed",
        ]
    )
    record = json.loads((folder.path / "out.json").read_text())
    first, second = record["properties"]
    assert (first["node_id"], first["result"], second["result"]) == (RENAMED, "fail", "pass")
    assert first["found"]["nodes"] == 2
    assert first["found"]["code"][0] == "Data("
    assert "torch.zeros(2, 8)" in (folder.path / "out.markdown").read_text()
    assert "<svg" in (folder.path / "out.html").read_text()
    cases = {
        each.get("name"): properties(each)
        for each in ET.parse(folder.path / "out.xml").iter("testcase")
    }
    broken = cases["test_conformance[permutation-equivariance]"]
    assert broken["grb.property"] == "permutation-equivariance"
    assert broken["grb.result"] == "fail"
    assert broken["grb.note"].startswith("nodes renamed")


@pytest.mark.parametrize("suite_option", [(), ("--grb-suite=conformance",)])
def test_a_property_runs_by_its_id(folder: pytest.Pytester, suite_option: tuple[str, ...]) -> None:
    """Whatever the suite is."""
    result = run(folder, *suite_option, ORDER)
    result.assert_outcomes(passed=1)


def test_a_known_failure_is_expected_until_it_passes(folder: pytest.Pytester) -> None:
    """By the name of the property, from the ini file, which other runs have too."""
    folder.makeini("[pytest]\ngrb_expected_failures =\n    permutation-equivariance: uses ids")
    result = suite(folder, *QUICK, "-rx")
    result.assert_outcomes(passed=1, xfailed=1)
    result.stdout.fnmatch_lines([f"XFAIL {RENAMED.replace('[', '[[]')} - uses ids*"])
    result = suite(folder, *QUICK, "-o", "xfail_strict=true", model="own:sound")
    result.assert_outcomes(passed=1, failed=1)
    result = suite(folder, *QUICK, model="own:sound")
    result.assert_outcomes(passed=1, xpassed=1)
    attacked = ("--grb-attack=rnd", "--grb-difficulty=easy", "--grb-repeats=1", "--grb-min-clean=0")
    result = run(folder, *attacked, "--grb-max-drop=1", model="own:sound")
    result.assert_outcomes(passed=2)


def test_what_the_ini_file_says_of_attacks_does_not_matter(folder: pytest.Pytester) -> None:
    """It is for other runs, and nothing of it is read."""
    folder.makeini(
        "[pytest]\ngrb_attacks = pgd\ngrb_jobs = 2\ngrb_min_rank = nowhere/full = 1\n"
        "grb_baseline = none.json\ngrb_thresholds = */easy/* = 0.1"
    )
    suite(folder, *QUICK, model="own:sound").assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--grb-attack=pgd",), "--grb-attack is for attacks, and the suite conformance has none"),
        (("--grb-jobs=2",), "--grb-jobs is for attacks"),
        (("--grb-baseline=b.json",), "--grb-baseline is for attacks"),
        (("--grb-dataset=synthetic-cora",), "one dataset, got tiny, synthetic-cora"),
        (("--grb-case=edgy",), "case pattern 'edgy' matches none of the properties permutation-"),
        (("--grb-expected-failure=edgy: why",), "expected failure pattern 'edgy' matches none"),
        (("grb::numbered::test_conformance[edge-ordr]",), "did you mean 'edge-order'?"),
        (("grb::another::test_conformance[edge-order]",), "no property has an id like"),
    ],
)
def test_wrong_options_are_refused_before_training(
    folder: pytest.Pytester, options: tuple[str, ...], words: str
) -> None:
    """With what to do."""
    result = suite(folder, *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert words in f"{result.stderr}"


def test_without_hypothesis_the_run_says_what_to_install(
    folder: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is trained."""
    absent = folder.mkpydir("absent")
    (absent / "hypothesis.py").write_text("raise ModuleNotFoundError(__name__)")
    path = (absent, folder.path, os.environ.get("PYTHONPATH", ""))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, path)))
    options = ("--grb-only", "--grb-model=own:sound", "--grb-dataset=./tiny")
    result = folder.runpytest_subprocess(
        *options, "--grb-suite=conformance", "-p", "no:hypothesispytest"
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "pip install 'grb-check[properties]'" in f"{result.stderr}{result.stdout}"


def test_workers_of_xdist_divide_the_properties(folder: pytest.Pytester) -> None:
    """And report as one process does."""
    pytest.importorskip("xdist")
    result = suite(folder, *QUICK, "-n2", "--grb-json=out.json")
    result.assert_outcomes(passed=1, failed=1)
    record: dict[str, Any] = json.loads((folder.path / "out.json").read_text())
    assert [each["result"] for each in record["properties"]] == ["fail", "pass"]
    assert record["missing"] == []


def test_properties_that_did_not_run_are_told(folder: pytest.Pytester) -> None:
    """As cases are."""
    result = suite(folder, *QUICK, "-x", "--grb-json=out.json")
    result.assert_outcomes(failed=1)
    assert json.loads((folder.path / "out.json").read_text())["missing"] == [ORDER]
