"""Runs that are compared with a saved one."""

from __future__ import annotations

import json

import pytest
from baseline_factory import resealed

BASE = (
    "--grb-only",
    "--grb-dataset=./tiny",
    "--grb-model=attacks:untrained",  # which costs no training
    "--grb-min-clean=0",
    "--grb-attack=injection/rnd",
    "--grb-difficulty=easy,hard",
    "--grb-repeats=2",
)
KEPT = "--grb-baseline=kept.json"
WORSE = """
import models
import torch

class Worse(models.Net):  # loses most of the attacked graph alone
    def forward(self, x, edge_index):
        logits = super().forward(x, edge_index)
        return -logits if x.shape[0] > 160 else logits

build = Worse
"""


@pytest.fixture
def kept(project: pytest.Pytester) -> pytest.Pytester:
    """A project with a baseline that was written on request."""
    result = project.runpytest(*BASE, KEPT, "--grb-update-baseline")
    assert result.parseoutcomes()["measured"] == 2
    result.stdout.fnmatch_lines(["*kept.json, to be written*", "*2 entries written to *kept.json"])
    return project


def test_a_missing_baseline_is_written_and_fails_the_run_once(project: pytest.Pytester) -> None:
    """So that a person commits it; the next run is compared with it, and is equal."""
    first = project.runpytest(*BASE, KEPT, "--junitxml=out.xml")
    assert first.ret == pytest.ExitCode.TESTS_FAILED
    first.assert_outcomes(failed=1)
    assert first.parseoutcomes()["measured"] == 2
    first.stdout.fnmatch_lines(["*there was no baseline *kept.json: it was written*commit it*"])
    assert 'name="test_baseline"' in (project.path / "out.xml").read_text()
    files = ["--grb-html=out.html", "--grb-markdown=out.md", "--grb-junit=view.xml"]
    second = project.runpytest(*BASE, KEPT, "-v", *files)
    assert second.ret == pytest.ExitCode.OK
    second.assert_outcomes(passed=4)
    second.stdout.no_fnmatch_line("*the perturbations differ*")
    second.stdout.fnmatch_lines(
        [
            "grb::tiny::test_baseline PASSED (equal)*",
            "grb::tiny::test_clean PASSED (equal)*",
            "difficulty * loss  verdict",
            "*easy *equal *pass",
            "baseline *kept.json: 2 equal",
            "baseline, all 2 cases of tiny: equal*",
            "clean, tiny: equal*",
        ]
    )
    for name in ("out.html", "out.md", "view.xml"):  # of cases that have no limit but the baseline
        assert "equal to the baseline" in (project.path / name).read_text()


@pytest.mark.slow
def test_a_worse_model_fails_with_the_figures_first(project: pytest.Pytester) -> None:
    """In the message, the JUnit properties and the record; the joint test fails too."""
    base = [option for option in BASE if "repeats" not in option and "model" not in option]
    trained = [*base, "--grb-model=models:build", "--grb-repeats=5"]
    project.runpytest(*trained, KEPT, "--grb-update-baseline")
    project.makepyfile(worse=WORSE)
    args = ["--grb-model=worse:build", "--junitxml=out.xml"]
    result = project.runpytest(*base, KEPT, *args, "--grb-json=out.json", "--grb-margin=1", "-v")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*test_attack* FAILED (drop *, loss +*, detects *)*"])
    result.stdout.fnmatch_lines(["attacked * against the baseline's *: loss *margin 1 points*"])
    written = (project.path / "out.xml").read_text()
    for name in ("method", "n", "statistic", "p", "low", "margin", "alpha", "loss", "detectable"):
        assert f'name="grb.baseline.{name}"' in written
    record = json.loads((project.path / "out.json").read_text())
    assert record["baseline"]["tests"] == 2
    assert record["baseline"]["together"][0]["dataset"] == "tiny"
    compared = record["cases"][0]["verdict"]["comparison"]
    assert compared["unit"] == "repeats"
    assert compared["alpha"] == pytest.approx(0.05 * 0.2 / 2)


def test_one_repeat_of_a_pretrained_model_is_compared(project: pytest.Pytester) -> None:
    """Target by target, and a model that has lost everything fails."""
    project.makepyfile(
        finished="""
        import grb_check, models, torch

        def build(num_features, num_classes):
            torch.manual_seed(0)
            return grb_check.Trained(models.Net(num_features, num_classes).eval())

        def worse(num_features, num_classes):
            built = build(num_features, num_classes)
            for parameter in built.module.parameters():
                parameter.data.neg_()
            return built
        """
    )
    args = [option for option in BASE if "model" not in option and "repeats" not in option]
    args += ["--grb-repeats=1", "--grb-max-drop=1", KEPT, "--grb-json=out.json"]
    project.runpytest(*args, "--grb-model=finished:build", "--grb-update-baseline")
    project.runpytest(*args, "--grb-model=finished:worse", "--grb-margin=1")
    record = json.loads((project.path / "out.json").read_text())
    comparisons = [case["verdict"]["comparison"] for case in record["cases"]]
    assert {
        comparison["unit"] for comparison in comparisons if comparison["result"] != "equal"
    } == {"targets"}


def test_perturbations_of_another_machine_are_reported(kept: pytest.Pytester) -> None:
    """All repeats share the surrogate's randomness."""
    path = kept.path / "kept.json"
    record = json.loads(path.read_text())
    record["versions"] |= {"torch": "2.0.0", "processor": "abacus"}
    record["cases"]["untrained@tiny/easy/injection/rnd"]["perturbations"] = "0123456789abcdef 0"
    path.write_text(resealed(record))
    result = kept.runpytest(*BASE, KEPT)
    result.stdout.fnmatch_lines(
        [
            "note: the baseline was measured in *: torch 2.0.0, now *; processor abacus, now *",
            "note: in 1 case (tiny/easy/injection/rnd) the perturbations differ from the *",
        ]
    )


@pytest.mark.slow
def test_a_baseline_of_few_repeats_has_a_note(kept: pytest.Pytester) -> None:
    """When it is written and in each run that is compared with it; ten repeats are enough."""
    note = "note: 2 of 2 entries of the baseline have fewer than 10 repeats (the least 2), with*"
    kept.runpytest(*BASE, KEPT).stdout.fnmatch_lines([note])
    kept.runpytest(*BASE, KEPT, "--grb-update-baseline").stdout.fnmatch_lines([note])
    args = [*(option for option in BASE if "repeats" not in option), "--grb-repeats=10", KEPT]
    for more in (["--grb-update-baseline"], []):
        result = kept.runpytest(*args, *more)
        result.stdout.no_fnmatch_line("*fewer than 10 repeats*")


@pytest.mark.slow
def test_updating_leaves_entries_that_this_run_does_not_make(kept: pytest.Pytester) -> None:
    """Nor does it give them the name of another model, of which the run has other cases."""
    args = [option for option in BASE if "difficulty" not in option and "model" not in option]
    other = ["--grb-difficulty=hard", "--grb-model=models:build"]
    result = kept.runpytest(*args, KEPT, *other, "--grb-update-baseline")
    result.stdout.fnmatch_lines(
        [
            "*1 entry written to *kept.json, 2 kept",
            "note: models*replaces untrained*",
        ]
    )
    record = json.loads((kept.path / "kept.json").read_text())
    ids = {f"untrained@tiny/{level}/injection/rnd" for level in ("easy", "hard")}
    ids.add("models@tiny/hard/injection/rnd")
    assert set(record["cases"]) == ids


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--grb-update-baseline"], "*--grb-update-baseline needs the file*--grb-baseline=FILE*"),
        ([KEPT, "--grb-margin=much"], "*--grb-margin 'much' is not a number of accuracy points*"),
        ([KEPT, "--grb-json=./kept.json"], "*--grb-baseline and --grb-json are the same file*"),
        (["--grb-baseline=models.py"], "*models.py' is not JSON*"),
        ([KEPT, "--grb-shard=1/2"], "*cannot be written by shard 1/2 of a run*"),
        (["--grb-baseline=no/such", "--grb-shard=3/2"], "*--grb-shard '3/2' is not a shard*"),
    ],
    ids=["no-file", "margin", "over-it", "damaged", "shard", "no-part"],
)
def test_wrong_input_ends_before_any_work(
    project: pytest.Pytester, args: list[str], told: str
) -> None:
    """As a usage error."""
    result = project.runpytest(*BASE, *args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([told])


def test_a_model_of_a_fixture_has_a_baseline_too(project: pytest.Pytester) -> None:
    """Without --grb-model; the run fails if no test requests a verdict."""
    project.makepyfile(
        test_fixed="""
        import pytest

        @pytest.fixture
        def grb_model():
            return "models:build"

        @pytest.mark.grb(dataset="./tiny", difficulty="easy", attack="injection/rnd", repeats=1)
        def test_mine(grb_verdict):
            assert grb_verdict.comparison is None or grb_verdict.comparison.result == "equal"

        def test_other():
            pass
        """
    )
    args = [KEPT, "--grb-min-clean=0", "--grb-max-drop=1", "test_fixed.py"]
    none = project.runpytest(*args, "-k", "other")
    assert none.ret == pytest.ExitCode.TESTS_FAILED
    none.stdout.fnmatch_lines(["*kept.json not written: no case ran*"])
    written = project.runpytest(*args, "--grb-update-baseline", "-k", "mine")
    assert written.ret == pytest.ExitCode.OK
    assert '"test_fixed.py::test_mine"' in (project.path / "kept.json").read_text()
