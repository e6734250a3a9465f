"""A run of the built-in cases, as a user sees it."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest
from plugin_names import BRITTLE, IDS, QUICK, TINY


@pytest.mark.usefixtures("own_store")
def test_the_cases_run_in_a_folder_without_tests(project: pytest.Pytester) -> None:
    """A model alone is enough; the table has every case."""
    result = project.runpytest(*QUICK, "-v")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        [
            "grb model: models:build (command line)",
            "grb datasets: tiny (command line); 2 cases of suite smoke (default) x 1 repeat (*",
            "grb device: auto = cpu (default); store: .grb_check (default)",
            "grb limit: drop of the least robust reference + 5% + interval (default)",
            "grb::tiny::test_attack?easy/injection/rnd? PASSED (drop *%, not judged)*",
            "*graph robustness*",
            "build on tiny (*",
            "*easy*injection/rnd*not judged",  # by one repeat on 16 targets
            "*easy*modification/rnd*not judged",
            "attacks by mean drop: 1. *",
        ]
    )
    assert result.ret == pytest.ExitCode.OK


@pytest.mark.slow
def test_the_cases_run_beside_the_repositorys_own_tests(project: pytest.Pytester) -> None:
    """Own tests come first, and --grb-only leaves them out."""
    project.makepyfile(test_own="def test_own(): pass")
    project.runpytest(*QUICK).assert_outcomes(passed=3)
    project.runpytest(*QUICK, "--grb-only").assert_outcomes(passed=2)
    project.runpytest(*QUICK, "-m", "grb").assert_outcomes(passed=2, deselected=1)
    project.runpytest(*QUICK, "-m", "not grb").assert_outcomes(passed=1, deselected=2)
    project.runpytest(*QUICK, "-k", "injection").assert_outcomes(passed=1, deselected=2)


def test_a_run_without_a_model_is_as_if_the_plugin_were_not_there(
    project: pytest.Pytester,
) -> None:
    """No header, no cases, no table."""
    project.makepyfile(test_own="def test_own(): pass")
    result = project.runpytest()
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*grb *")


@pytest.mark.slow
def test_torch_is_not_imported_for_collecting_or_without_a_model(
    project: pytest.Pytester,
) -> None:
    """Collecting costs nothing: neither torch nor the model is imported."""
    project.makeconftest(
        """
        import sys
        def pytest_sessionfinish():
            heavy = {"torch", "numpy", "scipy", "models"} & set(sys.modules)
            print("heavy imports:", sorted(heavy))
        """
    )
    project.makepyfile(test_own="def test_own(): pass")
    for args in (["--collect-only", "-q", *QUICK], []):
        result = project.runpytest_subprocess("-s", *args)
        assert "heavy imports: []" in result.stdout.str()
    assert IDS[0] in project.runpytest_subprocess("--collect-only", "-q", *QUICK).stdout.str()


@pytest.mark.slow
def test_a_printed_node_id_can_be_pasted_back(project: pytest.Pytester) -> None:
    """It runs alone, without the repository's own tests."""
    project.makepyfile(test_own="def test_own(): pass")
    project.runpytest(*QUICK, IDS[1]).assert_outcomes(passed=1)
    project.runpytest(*QUICK, "grb::tiny").assert_outcomes(passed=2)
    project.runpytest(*QUICK, IDS[1], "test_own.py").assert_outcomes(passed=2)


def test_a_node_id_reaches_cases_that_the_other_options_leave_out(
    project: pytest.Pytester,
) -> None:
    """An id of an earlier report runs, whatever the present selection."""
    result = project.runpytest(*QUICK, "grb::tiny::test_attack[hard/modification/dice]")
    result.assert_outcomes(passed=1)


def test_last_failed_and_stepwise_work_on_cases(project: pytest.Pytester) -> None:
    """A failed case is run again by --lf; -x and --sw stop at it."""
    strict = (*BRITTLE, "--grb-threshold=*/injection/rnd=0", "--grb-max-drop=1")
    project.runpytest(*strict).assert_outcomes(passed=1, failed=1)
    project.runpytest(*strict, "--lf").assert_outcomes(failed=1)
    project.runpytest(*strict, "-x").assert_outcomes(failed=1)
    project.runpytest(*strict, "--sw").assert_outcomes(failed=1)


def test_a_failure_is_one_line_that_begins_with_the_figures(project: pytest.Pytester) -> None:
    """A JUnit reader shows the verdict, without a frame of ours."""
    result = project.runpytest(*BRITTLE, "--grb-max-drop=0", "-k", "injection")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.re_match_lines(
        [r"drop \d+\.\d% > limit 0\.0% \(clean \d+\.\d% -> attacked \d+\.\d%; max drop\)"]
    )
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*suite.py:*")


def test_a_model_under_the_clean_floor_fails_for_that_reason(project: pytest.Pytester) -> None:
    """A constant predictor has no drop and is not robust."""
    result = project.runpytest(
        *QUICK, "--grb-model=models:Constant", "--grb-only", "-k", "Constant and injection"
    )
    result.assert_outcomes(failed=1, deselected=3)
    result.stdout.fnmatch_lines(["clean accuracy * < floor * (75% of the reference GCN's *"])


def test_a_model_at_fault_is_an_error_and_other_cases_go_on(project: pytest.Pytester) -> None:
    """An error is not a failure, and the other model is judged."""
    result = project.runpytest(*QUICK, "--grb-model=models:Raises", "--grb-model=models:Integers")
    result.assert_outcomes(passed=2, errors=4)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    text = result.stdout.str()
    assert "the user's own fault" in text
    assert "in forward" in text
    assert "During handling of the above exception" not in text
    result.stdout.fnmatch_lines(["*easy*injection/rnd*-*-*-*error"])


@pytest.mark.slow
def test_several_models_are_named_in_ids_and_ranked(project: pytest.Pytester) -> None:
    """Every id has the label; the most robust model is listed first."""
    result = project.runpytest(
        *QUICK, "--grb-model=wide=models:Net", "--grb-model=models:Mlp", "-v"
    )
    result.stdout.fnmatch_lines(
        [
            "grb::build::tiny::test_attack?easy/injection/rnd? *",
            "grb::wide::tiny::test_attack?easy/injection/rnd? *",
            "grb::Mlp::tiny::test_attack?easy/injection/rnd? *",
            "models by mean drop, most robust first: 1. *",
        ]
    )


def test_model_arguments_reach_the_factory(project: pytest.Pytester) -> None:
    """PyG's own classes are factories."""
    args = ["--grb-model=torch_geometric.nn.models:GraphSAGE", *TINY, "--grb-attack=dice"]
    given = "--grb-model-args=hidden_channels=8,num_layers=2"
    result = project.runpytest(*args, given, "--grb-max-drop=1", "--grb-min-clean=0")
    result.assert_outcomes(passed=3)


@pytest.mark.parametrize(
    "workers",
    [[], pytest.param(["-n", "1", "grb::tiny"], marks=pytest.mark.slow)],
    ids=["alone", "workers"],
)
def test_junit_holds_the_figures_of_cases_and_suite(
    project: pytest.Pytester, workers: list[str]
) -> None:
    """Properties survive workers, as a pasted id does; classname and name are unique."""
    project.runpytest(*QUICK, *workers, "--junitxml=out.xml")
    suite = ET.parse(project.path / "out.xml").getroot()[0]
    wide = {p.get("name"): p.get("value") for p in suite.find("properties")}
    assert wide["grb.models"] == "build=models:build"
    assert "injection/rnd" in wide["grb.attack_rank.tiny/easy"]
    cases = suite.findall("testcase")
    assert {case.get("name") for case in cases} == {
        "test_attack[easy/injection/rnd]",
        "test_attack[easy/modification/rnd]",
    }
    assert {case.get("classname") for case in cases} == {"grb.tiny"}
    for case in cases:
        own = {p.get("name"): p.get("value") for p in case.find("properties")}
        assert own["grb.verdict"] == "not judged"
        clean, attacked = float(own["grb.clean_accuracy"]), float(own["grb.attacked_accuracy"])
        assert float(own["grb.relative_drop"]) == pytest.approx(
            (clean - attacked) / clean, abs=1e-5
        )


@pytest.mark.slow
def test_outcomes_are_the_same_twice_and_from_a_warm_store(project: pytest.Pytester) -> None:
    """The same seed gives the same outcome, whatever the order or the store; for workers see
    test_workers_share."""
    args = [*TINY, "--grb-model=models:build", "--grb-difficulty=easy,hard", "--grb-repeats=1"]
    args.append("--grb-attack=injection/rnd,injection/fgsm,modification/dice")

    def figures(name: str, *more: str) -> dict[str, object]:
        project.runpytest(*args, f"--grb-json={name}", *more)
        record = json.loads((project.path / name).read_text())
        return {
            case["id"]: [
                {
                    k: v
                    for k, v in each.items()
                    if k not in ("seconds", "training_seconds", "from_store")
                }
                for each in case["outcome"]["repeats"]
            ]
            for case in record["cases"]
        }

    cold = figures("cold.json")
    assert len(cold) == 6
    assert figures("warm.json") == cold
    assert figures("off.json", "--grb-store=off") == cold
    (project.path / "one").mkdir()
    alone = figures("one.json", "--grb-store=one", "-k", "hard and fgsm")
    assert alone == {name: cold[name] for name in alone}
    assert len(alone) == 1


def test_json_holds_everything_of_every_outcome(project: pytest.Pytester) -> None:
    """Settings with their origins, versions, outcomes with bits, verdicts, ranks."""
    project.runpytest(*QUICK, "--grb-json=deep/out.json")
    record = json.loads((project.path / "deep" / "out.json").read_text())
    assert (record["kind"], record["format"]) == ("run record", 9)
    assert record["settings"]["origins"]["grb_model"] == "command line"
    assert set(record["environment"]) >= {"python", "torch", "pytest"}
    assert record["missing"] == []
    first = record["cases"][0]
    assert first["result"] == "pass"
    assert first["verdict"]["result"] == "not judged"
    assert first["outcome"]["repeats"][0]["spent"]["injected_nodes"] > 0
    assert record["ranks"]["attacks"]["tiny/easy"]


@pytest.mark.usefixtures("own_store")
@pytest.mark.slow
def test_a_second_run_takes_the_perturbations_from_the_store(project: pytest.Pytester) -> None:
    """With another model, without running an attack."""
    project.runpytest(*QUICK, "--grb-json=a.json")
    project.runpytest(*QUICK, "--grb-model=models:Net", "--grb-json=b.json")
    record = json.loads((project.path / "b.json").read_text())
    flags = [r["from_store"] for c in record["cases"] for r in c["outcome"]["repeats"]]
    assert flags == [True] * 4
    assert (project.path / ".grb_check" / ".gitignore").read_text() == "*\n"


def test_a_case_that_never_comes_back_makes_the_run_fail(project: pytest.Pytester) -> None:
    """A run with a lost report is not green: the exit code is 3, and the case is named."""
    project.makeconftest(
        """
        import pytest
        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_protocol(item):
            if "modification" in item.nodeid:
                return True
        """
    )
    result = project.runpytest(*QUICK)
    assert result.ret == pytest.ExitCode.INTERNAL_ERROR
    result.stdout.fnmatch_lines(
        ["grb::tiny::test_attack?easy/modification/rnd?", "no verdict on 1 case; *"]
    )


def test_stopping_at_the_first_failure_loses_no_case(project: pytest.Pytester) -> None:
    """Cases that -x leaves out are not lost."""
    result = project.runpytest(*BRITTLE, "--grb-max-drop=0", "-x")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.no_fnmatch_line("*not judged*")


def test_a_folder_of_tests_called_grb_is_a_folder(project: pytest.Pytester) -> None:
    """Only `grb::...` is the id of a case."""
    project.mkdir("grb")
    (project.path / "grb" / "test_own.py").write_text("def test_own(): assert False")
    project.runpytest("grb").assert_outcomes(failed=1)
    project.runpytest(*QUICK, "grb").assert_outcomes(failed=1, passed=2)


def test_hooks_of_the_root_conftest_see_the_cases(project: pytest.Pytester) -> None:
    """As they see any test below it."""
    project.makeconftest("def pytest_runtest_setup(item): print('seen', item.nodeid)")
    result = project.runpytest(*QUICK, "-s")
    result.stdout.fnmatch_lines(["*seen grb::tiny::*"])


def test_reports_with_another_outcome_pass_through(project: pytest.Pytester) -> None:
    """Plugins that repeat tests create them."""
    project.makeconftest(
        """
        import pytest
        @pytest.hookimpl(wrapper=True)
        def pytest_runtest_makereport(item, call):
            report = yield
            if report.when == "call":
                report.outcome = "rerun"
            return report
        """
    )
    assert project.runpytest(*QUICK).ret != pytest.ExitCode.INTERNAL_ERROR


@pytest.mark.slow
def test_a_model_below_the_floor_has_no_rank(project: pytest.Pytester) -> None:
    """A constant predictor is not the most robust."""
    result = project.runpytest(*QUICK, "--grb-model=models:Net", "--grb-model=models:Constant")
    result.stdout.fnmatch_lines(["*injection/rnd*fail (clean)"])
    (line,) = [each for each in result.outlines if each.startswith("models by mean drop")]
    assert "Constant" not in line
    assert "Net" in line


SLOW_FIT = """
import pathlib, time, torch
class Slow(torch.nn.Module):
    def __init__(self, num_features, num_classes):
        super().__init__()
        self.linear = torch.nn.Linear(num_features, num_classes)
    def forward(self, x, edge_index):
        return self.linear(x)
    def fit(self, data):
        while not pathlib.Path("go").exists():
            time.sleep(0.05)
"""


@pytest.mark.slow
def test_a_long_case_shows_what_it_does_on_a_terminal(project: pytest.Pytester) -> None:
    """Nothing of it is written if the output is not a terminal."""
    project.makepyfile(slow=SLOW_FIT)
    args = [*QUICK[:2], "--grb-model=slow:Slow", "--grb-case=tiny/easy/injection/rnd"]
    child = project.spawn_pytest(" ".join([*args, "--grb-only"]))
    child.expect(r"repeat 1/1, training Slow \(\d+ s\)", timeout=None)
    (project.path / "go").touch()
    child.expect("graph robustness", timeout=None)
    child.wait()
    plain = project.runpytest(*args)
    assert "training Slow" not in plain.stdout.str()


@pytest.mark.slow
@pytest.mark.parametrize(("split", "targets"), [("grb", 9), ("given", 10)])
def test_a_function_of_the_user_is_a_dataset(
    project: pytest.Pytester, split: str, targets: int
) -> None:
    """With GRB's split or its own masks, on the command line and in the ini file."""
    args = ["--grb-repeats=1", "--grb-attack=modification/rnd", "--grb-difficulty=easy"]
    chosen = ["--grb-dataset=models:graph", f"--grb-split={split}"]
    project.runpytest(
        "--grb-model=models:build", *args, *chosen, "--grb-json=a.json"
    ).assert_outcomes(passed=1)
    project.makepyprojecttoml(
        f"""
        [tool.pytest]
        grb_model = "models:build"
        grb_datasets = ["models:graph"]
        grb_split = "{split}"
        grb_download = false
        """
    )
    project.runpytest(*args, "--grb-json=b.json").assert_outcomes(passed=1)
    records = [json.loads((project.path / name).read_text()) for name in ("a.json", "b.json")]
    outcomes = [record["cases"][0]["outcome"] for record in records]
    assert [each["targets"] for each in outcomes] == [targets] * 2
    assert outcomes[0]["dataset"] == outcomes[1]["dataset"]
    assert outcomes[0]["case"]["dataset"] == "models.graph"


@pytest.mark.slow
def test_a_dataset_that_differs_between_processes_fails_the_run(project: pytest.Pytester) -> None:
    """Its cases cannot be compared in one table."""
    project.makepyfile(
        other="""
        import os, models
        def graph():
            data = models.graph()
            data.x[0, 0] = os.getpid()
            return data
        """
    )
    args = ["--grb-model=models:build", "--grb-dataset=other:graph", "--grb-repeats=1"]
    args += ["--grb-attack=modification/rnd", "--grb-difficulty=easy,hard", "--grb-max-drop=1"]
    result = project.runpytest(*args, "-n", "2", "--grb-min-clean=0")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["grb: dataset other.graph was a different graph in some cases*"])
    assert project.runpytest(*args, "--grb-min-clean=0").ret == 0
