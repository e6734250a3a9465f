"""A run of the built-in cases, as a user sees it."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest
import torch
from finished_tests import finished
from plugin_names import BRITTLE, IDS, QUICK, TINY


@pytest.mark.slow
@pytest.mark.usefixtures("own_store")
def test_the_cases_run_in_a_folder_without_tests(project: pytest.Pytester) -> None:
    """A model alone is enough; the table has every case."""
    result = project.runpytest(*QUICK, "-v")
    assert result.parseoutcomes() == {"measured": 2}
    result.stdout.fnmatch_lines(
        [
            "grb model: models:build (command line)",
            "grb datasets: tiny (command line); 2 cases of suite smoke (default) x 1 repeat (*",
            "grb device: auto = cpu (default); store: .grb_check (default)",
            "grb protocol: tiny: features normalised as in GRB, GRB's split",
            "grb limit: drop of the least robust reference + 5% + interval (default)",
            "grb::tiny::test_attack?easy/injection/rnd? MEASURED (drop *%)*",
            "*graph robustness*",
            "models on tiny (*",
            "*easy*injection/rnd* -  *measured",  # one repeat on 16 targets has no limit
            "*easy*modification/rnd* -  *measured",
            "models keeps * under these attacks, by attackers who do not know it; a model *",
            "to make a gate of it: *",
        ]
    )
    assert result.ret == pytest.ExitCode.OK


@pytest.mark.slow
def test_the_cases_run_beside_the_repositorys_own_tests(project: pytest.Pytester) -> None:
    """Own tests come first, and --grb-only leaves them out."""
    project.makepyfile(test_own="def test_own(): pass")
    assert finished(project.runpytest(*QUICK)) == {"passed": 3}
    assert finished(project.runpytest(*QUICK, "--grb-only")) == {"passed": 2}
    assert finished(project.runpytest(*QUICK, "-m", "grb")) == {"passed": 2, "deselected": 1}
    assert finished(project.runpytest(*QUICK, "-m", "not grb")) == {"passed": 1}
    assert finished(project.runpytest(*QUICK, "-k", "injection")) == {"passed": 1, "deselected": 2}


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
    assert finished(project.runpytest(*QUICK, IDS[1])) == {"passed": 1}
    assert finished(project.runpytest(*QUICK, "grb::tiny")) == {"passed": 2}
    assert finished(project.runpytest(*QUICK, IDS[1], "test_own.py")) == {"passed": 2}


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


@pytest.mark.slow
def test_a_model_at_fault_is_an_error_and_other_cases_go_on(project: pytest.Pytester) -> None:
    """An error is not a failure, and the other model is judged."""
    result = project.runpytest(*QUICK, "--grb-model=models:Raises", "--grb-model=models:Integers")
    result.assert_outcomes(errors=4)
    assert result.parseoutcomes()["measured"] == 2
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    text = result.stdout.str()
    assert "the user's own fault" in text
    assert "in forward" in text
    assert "During handling of the above exception" not in text
    result.stdout.fnmatch_lines(["*easy*injection/rnd*-*-*-*error"])


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
    project.runpytest(*QUICK, *workers, "--junitxml=out.xml", "--grb-max-drop=1")
    suite = ET.parse(project.path / "out.xml").getroot()[0]
    wide = {p.get("name"): p.get("value") for p in suite.find("properties")}
    assert wide["grb.models"] == "models=models:build"
    assert "injection/rnd" in wide["grb.attack_rank.tiny/easy"]
    cases = suite.findall("testcase")
    assert {case.get("name") for case in cases} == {
        "test_attack[easy/injection/rnd]",
        "test_attack[easy/modification/rnd]",
    }
    assert {case.get("classname") for case in cases} == {"grb.tiny"}
    for case in cases:
        properties = {p.get("name"): p.get("value") for p in case.find("properties")}
        assert properties["grb.verdict"] == "pass"
        clean, attacked = (
            float(properties["grb.clean_accuracy"]),
            float(properties["grb.attacked_accuracy"]),
        )
        assert float(properties["grb.relative_drop"]) == pytest.approx(
            (clean - attacked) / clean, abs=1e-5
        )


@pytest.mark.slow
def test_outcomes_are_the_same_twice_and_from_a_warm_store(project: pytest.Pytester) -> None:
    """The same seed gives the same outcome, whatever the order or the store; for workers see
    test_workers_share."""
    args = [*TINY, "--grb-model=models:build", "--grb-difficulty=easy,hard", "--grb-repeats=1"]
    args += ["--grb-attack=injection/rnd,injection/fgsm,modification/dice", "--grb-max-drop=1"]

    def figures(name: str, *more: str) -> dict[str, object]:
        project.runpytest(*args, f"--grb-json={name}", *more)
        record = json.loads((project.path / name).read_text())
        return {
            case["id"]: [
                {
                    k: v
                    for k, v in repeat.items()
                    if k not in ("seconds", "training_seconds", "from_store", "measured_before")
                }
                for repeat in case["outcome"]["repeats"]
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


@pytest.mark.usefixtures("own_store")
@pytest.mark.slow
def test_a_second_run_takes_the_perturbations_from_the_store(project: pytest.Pytester) -> None:
    """With another model, without running an attack."""
    limit = "--grb-max-drop=1"
    project.runpytest(*QUICK, limit, "--grb-json=a.json")
    project.runpytest(*QUICK, limit, "--grb-model=models:Net", "--grb-json=b.json")
    record = json.loads((project.path / "b.json").read_text())
    flags = [r["from_store"] for c in record["cases"] for r in c["outcome"]["repeats"]]
    assert flags == [True] * 4
    assert (project.path / ".grb_check" / ".gitignore").read_text() == "*\n"


@pytest.mark.usefixtures("own_store")
@pytest.mark.slow
def test_a_second_run_measures_only_what_has_changed(project: pytest.Pytester) -> None:
    """Weights that the factory reads count, though no import tells of them."""
    (project.path / "kept.py").write_text(
        "import torch\n"
        "from grb_check import Trained\n"
        "from models import Mlp\n\n"
        "def build(num_features, num_classes):\n"
        "    model = Mlp(num_features, num_classes)\n"
        "    model.load_state_dict(torch.load('weights.pt'))\n"
        "    return Trained(model)\n"
    )

    def measured_before(*more: str) -> bool:
        args = [*TINY, "--grb-attack=rnd", "--grb-difficulty=easy", "--grb-model=kept:build"]
        result = project.runpytest(*args, *more)
        result.stdout.fnmatch_lines("*easy*injection/rnd*")
        return "note: 2 of 2 measurements from the store" in result.stdout.str()

    for seed in (0, 1):
        weight = torch.rand((3, 8), generator=torch.Generator().manual_seed(seed))
        weights = {"linear.weight": weight, "linear.bias": torch.zeros(3)}
        torch.save(weights, project.path / "weights.pt")
        assert [measured_before(), measured_before()] == [False, True]
    assert not measured_before("--grb-store=off")


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


@pytest.mark.slow
@pytest.mark.parametrize(("split", "targets"), [("grb", 9), ("given", 10), ("", 10)])
def test_a_function_of_the_user_is_a_dataset(
    project: pytest.Pytester, split: str, targets: int
) -> None:
    """With GRB's split or its own masks, which it has by default."""
    args = ["--grb-repeats=1", "--grb-attack=modification/rnd", "--grb-difficulty=easy"]
    chosen = ["--grb-dataset=models:graph", *([f"--grb-split={split}"] if split else [])]
    assert finished(
        project.runpytest("--grb-model=models:build", *args, *chosen, "--grb-json=a.json")
    ) == {"passed": 1}
    project.makepyprojecttoml(
        f"""
        [tool.pytest]
        grb_model = "models:build"
        grb_datasets = ["models:graph"]
        {f'grb_split = "{split}"' if split else ""}
        grb_download = false
        """
    )
    assert finished(project.runpytest(*args, "--grb-json=b.json")) == {"passed": 1}
    records = [json.loads((project.path / name).read_text()) for name in ("a.json", "b.json")]
    outcomes = [record["cases"][0]["outcome"] for record in records]
    assert [outcome["targets"] for outcome in outcomes] == [targets] * 2
    assert outcomes[0]["dataset"] == outcomes[1]["dataset"]
    assert outcomes[0]["case"]["dataset"] == "models.graph"


@pytest.mark.slow
def test_the_cases_wait_until_they_are_asked_for(project: pytest.Pytester) -> None:
    """With `-m "not grb"` in addopts plain pytest leaves them out, and --grb-only runs them."""
    project.makefile(
        ".toml",
        pytest="""
        [pytest]
        grb_model = "models:build"
        addopts = ["-m", "not grb"]
        """,
    )
    project.makepyfile(test_own="def test_own(): pass")
    chosen = [arg for arg in QUICK if "--grb-model" not in arg]
    project.runpytest(*chosen).assert_outcomes(passed=1)
    assert project.runpytest(*chosen, "--grb-only").parseoutcomes() == {"measured": 2}
    assert project.runpytest(*chosen, IDS[0]).parseoutcomes() == {"measured": 1}
    option = "--grb-baseline=kept.json"
    result = project.runpytest(*chosen, option, "--grb-update-baseline")
    assert result.parseoutcomes() == {"measured": 2, "passed": 1}
    assert (project.path / "kept.json").exists()
