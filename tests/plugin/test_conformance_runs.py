"""The suite of properties, as a user runs it."""

from __future__ import annotations

import os
import shutil
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from plugin_names import UNTRAINED

import grb_check

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
RENAMED = "conformance::numbered[permutation-equivariance]"
ORDER = "conformance::numbered[edge-order]"


@pytest.fixture
def folder(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder with a sound model and one that reads the numbers of nodes."""
    project.makepyfile(own=OWN)
    monkeypatch.delitem(sys.modules, "own", raising=False)
    return project


def suite(folder: pytest.Pytester, *options: str, model: str = "own:numbered") -> pytest.RunResult:
    return folder.runpytest(
        "--grb-only",
        f"--grb-model={model}",
        "--grb-dataset=./tiny",
        "--grb-suite=conformance",
        *options,
    )


def test_each_property_is_a_test(folder: pytest.Pytester) -> None:
    """Collected without training."""
    result = suite(folder, "--collect-only", "-q")
    lines = [line for line in result.outlines if line.startswith("conformance::")]
    assert len(lines) == 25
    assert lines[:2] == [RENAMED, ORDER]


@pytest.mark.slow
def test_a_broken_property_is_shown_with_a_graph(folder: pytest.Pytester) -> None:
    """As code; other properties pass."""
    result = suite(folder, *QUICK, "--junitxml=out.xml")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "permutation-equivariance: *",
            "nodes renamed *: row * of the logits differs by *",
            "Data(",
        ]
    )
    failed = [
        testcase.get("name") for testcase in ET.parse(folder.path / "out.xml").iter("testcase")
    ]
    assert len(failed) == 2


@pytest.mark.slow
def test_a_known_failure_is_expected(folder: pytest.Pytester) -> None:
    """By the name of the property, from the ini file; each suite leaves the other's lines alone."""
    lines = "    permutation-*: uses ids\n    */easy/*/rnd: a case"
    folder.makeini(f"[pytest]\ngrb_expected_failures =\n{lines}")
    result = suite(folder, *QUICK, "-rx")
    result.assert_outcomes(passed=1, xfailed=1)
    result.stdout.fnmatch_lines(["XFAIL *permutation-equivariance* - uses ids*"])
    suite(folder, *QUICK, model="own:sound").assert_outcomes(passed=1, xpassed=1)
    attacked = (*UNTRAINED, "--grb-attack=injection/rnd")
    folder.runpytest(*attacked).assert_outcomes(xpassed=2)


def test_a_model_that_cannot_be_trained_is_told_once_for_all(folder: pytest.Pytester) -> None:
    """It is built once, and its error is no failure that is expected of a property."""
    folder.makeini("[pytest]\ngrb_expected_failures =\n    permutation-*: uses ids")
    folder.makepyfile(
        bad="def build():\n    open('calls', 'a').write('x')\n    raise OSError('no')\n"
    )
    suite(folder, *QUICK, model="bad:build").assert_outcomes(failed=2)
    assert (folder.path / "calls").read_text() == "x"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--grb-dataset=synthetic-cora",), "one dataset, got tiny, synthetic-cora"),
        (("--grb-shard=1/2",), "--grb-shard is for attacks, and the suite conformance has none"),
        (("--grb-attack=pgd",), "--grb-attack is for attacks"),
        (("--grb-baseline=b.json",), "--grb-baseline is for attacks"),
        (("--grb-case=edgy",), "case pattern 'edgy' matches none of the properties permutation-"),
        (("-o", "grb_expected_failures=edge-ordr: why"), "did you mean 'edge-order'?"),
        (("--grb-expected-failure=edge-ordr: why",), "did you mean 'edge-order'?"),
        (("--grb-expected-failure=a/b/c/d: why",), "property of an expected failure"),
        (("-o", "grb_expected_failures=edge-order"), "with a reason that is not empty"),
    ],
)
def test_wrong_options_are_refused_before_training(
    folder: pytest.Pytester, options: tuple[str, ...], words: str
) -> None:
    """With what to do."""
    result = suite(folder, *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert words in f"{result.stderr}"


WITHOUT = """
import importlib, pkgutil, sys
import grb_check, pytest
assert "/copy/" in grb_check.__file__
for module in pkgutil.walk_packages(grb_check.__path__, "grb_check."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
assert not {"hypothesis", "grb_check.conformance"} & set(sys.modules)
sys.exit(pytest.main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_without_the_folder_everything_else_works(
    folder: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every module is imported, and cases run: it hangs on public hooks alone."""
    copy = folder.path / "copy" / "grb_check"
    left_out = shutil.ignore_patterns("conformance", "strategies.py", "__pycache__")
    shutil.copytree(Path(grb_check.__file__).parent, copy, ignore=left_out)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(copy.parent), str(folder.path)]))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    script = folder.makepyfile(without=WITHOUT)
    result = folder.run(sys.executable, script, "-p", "grb_check.plugin", *UNTRAINED)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*2 passed*"])
