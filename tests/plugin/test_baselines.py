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
def build(num_features, num_classes):
    return models.Constant(num_features, num_classes)
"""


@pytest.fixture
def kept(project: pytest.Pytester) -> pytest.Pytester:
    """A project with a baseline that was written on request."""
    result = project.runpytest(*BASE, KEPT, "--grb-update-baseline")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*kept.json, to be written*", "*2 entries written to *kept.json"])
    return project


def test_a_missing_baseline_is_written_and_fails_the_run_once(project: pytest.Pytester) -> None:
    """So that a person commits it; the next run is compared with it, and is equal."""
    first = project.runpytest(*BASE, KEPT, "--junitxml=out.xml")
    assert first.ret == pytest.ExitCode.TESTS_FAILED
    first.assert_outcomes(passed=2, failed=1)
    first.stdout.fnmatch_lines(["*there was no baseline *kept.json: it was written*commit it*"])
    assert 'name="test_baseline"' in (project.path / "out.xml").read_text()
    files = ["--grb-html=out.html", "--grb-markdown=out.md", "--grb-junit=view.xml"]
    second = project.runpytest(*BASE, KEPT, "-v", *files)
    assert second.ret == pytest.ExitCode.OK
    second.assert_outcomes(passed=3)
    second.stdout.no_fnmatch_line("*the perturbations differ*")
    second.stdout.fnmatch_lines(
        [
            "grb::tiny::test_baseline PASSED (equal)*",
            "*loss (baseline)*",
            "*easy *equal *pass",
            "baseline *kept.json: 2 equal",
            "baseline, all 2 cases of tiny: equal*",
        ]
    )
    for name in ("out.html", "out.md", "view.xml"):  # of cases that have no limit but the baseline
        assert "equal to the baseline" in (project.path / name).read_text()


def test_the_default_number_of_repeats_is_the_baselines(kept: pytest.Pytester) -> None:
    """The header reports it."""
    args = [each for each in BASE if not each.startswith("--grb-repeats")]
    result = kept.runpytest(*args, KEPT)
    result.stdout.fnmatch_lines(["*2 cases of suite smoke (default) x 2 repeats (baseline)"])


@pytest.mark.slow
def test_a_worse_model_fails_with_the_figures_first(project: pytest.Pytester) -> None:
    """In the message, the JUnit properties and the record; the joint test fails too."""
    base = [each for each in BASE if "repeats" not in each and "model" not in each]
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


SELF_SEEDED = """
import torch
import models

class SelfSeeded(models.Net):
    def fit(self, data):
        torch.manual_seed(42)
        torch.rand(DRAWS)
        for parameter in self.parameters():
            torch.nn.init.normal_(parameter)

def build(num_features, num_classes):
    return SelfSeeded(num_features, num_classes)
"""


@pytest.mark.slow
def test_a_training_that_fixes_its_own_seed_is_never_tested_on_targets(
    project: pytest.Pytester,
) -> None:
    """One more random draw before it gives another model, which is no regression."""
    args = [each for each in BASE if "model" not in each and "repeats" not in each]
    args += ["--grb-repeats=3", KEPT, "--grb-max-drop=1", "--grb-json=out.json"]
    project.makepyfile(first=SELF_SEEDED.replace("DRAWS", "0"))
    project.makepyfile(second=SELF_SEEDED.replace("DRAWS", "1"))
    project.runpytest(*args, "--grb-model=first:build", "--grb-update-baseline")
    result = project.runpytest(*args, "--grb-model=second:build")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(
        ["*only one training can be compared, since a repeat with the weights of an earlier one*"]
    )
    record = json.loads((project.path / "out.json").read_text())
    found = [each["verdict"]["comparison"] for each in record["cases"]]
    assert {each["result"] for each in found} <= {"inconclusive", "equal"}


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
    args = [each for each in BASE if "model" not in each and "repeats" not in each]
    args += ["--grb-repeats=1", "--grb-max-drop=1", KEPT, "--grb-json=out.json"]
    project.runpytest(*args, "--grb-model=finished:build", "--grb-update-baseline")
    project.runpytest(*args, "--grb-model=finished:worse", "--grb-margin=1")
    record = json.loads((project.path / "out.json").read_text())
    found = [each["verdict"]["comparison"] for each in record["cases"]]
    assert {each["unit"] for each in found if each["result"] != "equal"} == {"targets"}


def test_a_baseline_replaces_only_the_default_limit(kept: pytest.Pytester) -> None:
    """The user's limits still apply."""
    result = kept.runpytest(*BASE, KEPT, "--grb-min-clean=1")
    result.assert_outcomes(failed=2, passed=1)
    result.stdout.fnmatch_lines(["clean accuracy * < floor 100.0% (min clean accuracy); *"])


def test_new_cases_and_unused_entries_are_reported(kept: pytest.Pytester) -> None:
    """A new case has the default limit; an entry without a case is named."""
    args = [each for each in BASE if "difficulty" not in each]
    result = kept.runpytest(*args, KEPT, "--grb-difficulty=hard,medium")
    result.stdout.fnmatch_lines(
        [
            "*hard *equal *",
            "*1 entry of the baseline without a case*tiny/easy/*",
        ]
    )
    result.stdout.fnmatch_lines(["*medium *new *"])


def test_another_attack_is_not_compared(kept: pytest.Pytester) -> None:
    """A changed version or budget makes an entry incomparable; if nothing is left to compare, the
    run fails, in every report."""
    path = kept.path / "kept.json"
    path.write_text(resealed(json.loads(path.read_text().replace("/rnd v", "/rnd v9"))))
    kinds = ("json", "html", "markdown", "junit")
    files = [f"--grb-{kind}=out.{kind}" for kind in kinds]
    result = kept.runpytest(*BASE, KEPT, *files, "--junitxml=out.xml")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=2, failed=1)
    told = "nothing was compared: the baseline has 2 cases of untrained on tiny; this run has 2"
    result.stdout.fnmatch_lines(
        [
            f"{told} cases *: 2 not comparable (*: the attack is *",
            "baseline *: 2 not comparable",
            f"baseline, 0 of 2 cases of tiny: {told} *",
            "FAILED*grb::tiny::test_baseline*",
        ]
    )
    for kind in (*kinds, "xml"):
        assert told in (kept.path / f"out.{kind}").read_text()
    assert 'name="test_baseline"' in (kept.path / "out.xml").read_text()


@pytest.mark.slow
def test_a_second_model_leaves_the_entries_of_the_first(kept: pytest.Pytester) -> None:
    """The first one is compared as before, the second is new; so it is in either order, and for
    each of them alone when the file has both."""
    one, two = "--grb-model=attacks:untrained", "--grb-model=models:build"
    args = [each for each in BASE if "model" not in each]
    for models in ([one, two], [two, one]):
        result = kept.runpytest(*args, *models, KEPT, "-v")
        assert result.ret == pytest.ExitCode.OK
        result.assert_outcomes(passed=5)
        result.stdout.fnmatch_lines(
            [
                "grb::untrained::tiny::test_baseline PASSED (equal)*",
                "baseline *kept.json: 2 equal, 2 new",
                "baseline, all 2 cases of untrained@tiny: equal*",
            ]
        )
    kept.runpytest(*args, one, two, KEPT, "--grb-update-baseline").assert_outcomes(passed=4)
    for model in (one, two):
        result = kept.runpytest(*args, model, KEPT)
        assert result.ret == pytest.ExitCode.OK
        result.stdout.fnmatch_lines(["baseline, all 2 cases of tiny: equal*"])


def test_a_run_of_other_models_fails(kept: pytest.Pytester) -> None:
    """The text names the models of both."""
    args = [each for each in BASE if "model" not in each]
    models = ["--grb-model=one=attacks:untrained", "--grb-model=two=attacks:untrained"]
    result = kept.runpytest(*args, *models, KEPT)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=4, failed=2)
    result.stdout.fnmatch_lines(
        ["*the baseline has 2 cases of untrained on tiny; this run has 2 cases of two on tiny*"]
    )


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
    args = [*(each for each in BASE if "repeats" not in each), "--grb-repeats=10", KEPT]
    for more in (["--grb-update-baseline"], []):
        result = kept.runpytest(*args, *more)
        result.stdout.no_fnmatch_line("*fewer than 10 repeats*")


@pytest.mark.slow
def test_updating_leaves_entries_that_this_run_does_not_make(kept: pytest.Pytester) -> None:
    """Nor does it give them the name of another model, of which the run has other cases."""
    args = [each for each in BASE if "difficulty" not in each and "model" not in each]
    other = ["--grb-difficulty=hard", "--grb-model=models:build"]
    result = kept.runpytest(*args, KEPT, *other, "--grb-update-baseline")
    result.stdout.fnmatch_lines(
        [
            "*1 entry written to *kept.json, 2 kept",
            "note: build, the only model of this run, replaces untrained of the baseline if *",
        ]
    )
    record = json.loads((kept.path / "kept.json").read_text())
    ids = {f"untrained@tiny/{level}/injection/rnd" for level in ("easy", "hard")}
    ids.add("build@tiny/hard/injection/rnd")
    assert set(record["cases"]) == ids


@pytest.mark.slow
def test_users_own_tests_are_compared_too(project: pytest.Pytester) -> None:
    """Under the id of the test, since its model may be another; a test that requests no verdict is
    neither compared nor saved."""
    project.makepyfile(
        test_own="""
        import pytest

        @pytest.mark.grb(dataset="./tiny", difficulty="easy", attack="injection/rnd", repeats=2)
        def test_mine(grb_verdict):
            assert grb_verdict.passed

        @pytest.mark.grb(dataset="./tiny", difficulty="easy", attack="injection/rnd", repeats=2)
        def test_without_a_verdict(grb_outcome):
            assert grb_outcome.drop <= 1
        """
    )
    args = ["--grb-model=models:build", KEPT, "test_own.py"]
    both = ["--grb-dataset=./tiny", "-k", "mine or without"]
    project.runpytest(*args, "--grb-update-baseline", *both)
    record = json.loads((project.path / "kept.json").read_text())
    assert set(record["cases"]) == {"test_own.py::test_mine"}


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
    none.stdout.fnmatch_lines(["*kept.json not written: no case has figures"])
    written = project.runpytest(*args, "--grb-update-baseline", "-k", "mine")
    assert written.ret == pytest.ExitCode.OK
    assert '"test_fixed.py::test_mine"' in (project.path / "kept.json").read_text()


def test_a_run_that_stops_early_writes_no_baseline(project: pytest.Pytester) -> None:
    """It would be incomplete."""
    result = project.runpytest(*BASE, KEPT, "--grb-min-clean=1", "-x")
    assert not (project.path / "kept.json").exists()
    result.stdout.fnmatch_lines(["*kept.json not written: the run stopped before its end"])
