"""No run is green without a comparison: which entries belong to a model, and what fails without."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from outcome_factory import outcome

from grb_check.cases.case import Case
from grb_check.cases.case_record import CaseRecord
from grb_check.cases.node_ids import is_node_id, node_id_of
from grb_check.cases.shards import Shard
from grb_check.gate.baselines.baseline import Baseline, key_of, open_baseline
from grb_check.gate.baselines.files import read_baseline
from grb_check.gate.baselines.joint import JointComparison
from grb_check.gate.baselines.result import BaselineResult, baseline_result
from grb_check.gate.limits import Gate, judge

ENVIRONMENT = {"grb_check": "0.1.0"}
ATTACKS = ("rnd", "pgd")
MODELS = st.lists(st.sampled_from(["net", "mlp", "gin"]), min_size=1, max_size=3, unique=True)
DATASETS = st.dictionaries(st.sampled_from("ab"), st.sampled_from(["one", "two"]), min_size=1)


def cases_of(
    models: Sequence[str], datasets: Sequence[str] = ("a",), attacks: Sequence[str] = ATTACKS
) -> list[Case]:
    """The cases of a run; ids name the model only if there are several."""
    labels = models if len(models) > 1 else [""]
    return [
        Case(dataset, "easy", "injection", attack, label)
        for label in labels
        for dataset in datasets
        for attack in attacks
    ]


def row(
    baseline: Baseline, case: Case, graph: str = "one", node_id: str = "", attacked: float = 0.5
) -> CaseRecord:
    """A case as it is reported."""
    node_id = node_id or node_id_of(case)
    case_outcome = replace(
        outcome([(0.8, attacked)] * 2, [(0.8, 0.4)] * 2, case), dataset=graph * 16
    )
    compared = baseline.compare(key_of(node_id, case), case_outcome)
    verdict = judge(case_outcome, Gate(max_drop=0.9), compared)
    return CaseRecord(
        id=case.id, node_id=node_id, result="pass", outcome=case_outcome, verdict=verdict
    )


def run(
    path: Path,
    models: Sequence[str],
    graphs: Mapping[str, str] | None = None,
    *,
    update: bool = False,
    selected: str = "",
    own: Sequence[str] = (),
    shard: Shard | None = None,
    attacks: Sequence[str] = ATTACKS,
) -> BaselineResult:
    """A run of these models on datasets of these graphs, of which only some cases are selected."""
    graphs = graphs or {"a": "one"}
    label = models[0] if len(models) == 1 else ""
    baseline = open_baseline(path, 2.0, label, update=update)
    planned = cases_of(models, list(graphs), attacks)
    rows = [row(baseline, case, graphs[case.dataset]) for case in planned if selected in case.id]
    rows += [row(baseline, planned[0], node_id=user_test) for user_test in own]
    return baseline_result(baseline, rows, planned, ENVIRONMENT, {}, cut_short=False, shard=shard)


def attacked(result: BaselineResult) -> list[JointComparison]:
    """The comparisons under attack; each has one of clean accuracy beside it."""
    clean = [comparison.name for comparison in result.joint if comparison.accuracy == "clean"]
    judged = [comparison for comparison in result.joint if comparison.accuracy == "attacked"]
    assert clean == [comparison.name for comparison in judged if comparison.compared]
    return judged


def failures(result: BaselineResult) -> list[str]:
    return [comparison.name for comparison in result.joint if comparison.failed]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kept.json"


@pytest.fixture
def of_net(path: Path) -> Path:
    """A baseline of one model on dataset `a`."""
    run(path, ["net"], update=True)
    return path


@settings(max_examples=60, deadline=None)
@given(
    before=MODELS, now=MODELS, was=DATASETS, graphs=DATASETS, selected=st.sampled_from(["", "rnd"])
)
def test_a_run_compares_something_or_fails(
    tmp_path_factory: pytest.TempPathFactory,
    before: list[str],
    now: list[str],
    was: dict[str, str],
    graphs: dict[str, str],
    selected: str,
) -> None:
    """And a model with the label of the baseline, on the same graph, is compared in every run,
    however many others there are; on another graph it fails."""
    path = tmp_path_factory.mktemp("kept") / "kept.json"
    run(path, before, was, update=True)
    result = run(path, now, graphs, selected=selected)
    compared = {
        comparison.name: comparison for comparison in attacked(result) if not comparison.failed
    }
    assert compared or failures(result)
    renamed = len(before) == len(now) == 1
    for model in now:
        for dataset, graph in graphs.items():
            name = dataset if len(now) == 1 else f"{model}@{dataset}"
            known = (model in before or renamed) and dataset in was
            same = known and was[dataset] == graph
            assert (name in compared) == same
            assert (name in failures(result)) == (not same and (known or not compared))
            if same:
                number = 1 if selected else 2
                assert (compared[name].compared, compared[name].cases) == (number, 2)


def test_a_second_model_is_new_and_the_first_is_compared(of_net: Path) -> None:
    """The file names the model of each entry, also if its run had no other."""
    assert set(read_baseline(of_net).entries) == {
        "net@a/easy/injection/rnd",
        "net@a/easy/injection/pgd",
    }
    result = run(of_net, ["net", "mlp"])
    assert [(comparison.name, comparison.comparison.result) for comparison in attacked(result)] == [
        ("net@a", "equal")
    ]
    assert result.unused == ()


def test_one_of_two_models_is_updated_alone(path: Path) -> None:
    """The entries of the other stay, and are not doubled."""
    run(path, ["net", "mlp"], update=True)
    before = read_baseline(path)
    result = run(path, ["mlp"], {"a": "two"}, update=True)
    after = read_baseline(path)
    assert set(after.entries) == set(before.entries)
    assert {
        key for key, case_entry in after.entries.items() if case_entry != before.entries[key]
    } == {
        "mlp@a/easy/injection/rnd",
        "mlp@a/easy/injection/pgd",
    }
    assert "2 entries written" in result.notes[0]
    assert "2 kept" in result.notes[0]
    assert not failures(run(path, ["net"]))


def test_the_only_model_is_compared_with_the_only_one_of_the_file(of_net: Path) -> None:
    """Whatever the labels are, with a note; an update gives the entries its label."""
    result = run(of_net, ["other"])
    assert [comparison.comparison.result for comparison in attacked(result)] == ["equal"]
    message = "other, the only model of this run, is compared with net of the baseline"
    assert message in result.notes
    assert message not in run(of_net, ["net"]).notes
    result = run(of_net, ["other"], update=True)
    assert any("replaces net of the baseline if this run has all" in note for note in result.notes)
    assert read_baseline(of_net).models == ("other",)


def test_a_new_dataset_does_not_fail_beside_another(of_net: Path) -> None:
    """Alone it does: nothing was compared."""
    assert failures(run(of_net, ["net"], {"a": "one", "b": "one"})) == []
    assert failures(run(of_net, ["net"], {"b": "one"})) == ["b"]


def test_what_was_not_selected_does_not_fail(of_net: Path) -> None:
    """Of a dataset that is left out by `-k` nothing could be compared. A selection of new cases
    alone compares nothing, and fails."""
    both = {"a": "one", "b": "two"}
    run(of_net, ["net"], both, update=True)
    other = {"a": "two", "b": "two"}
    assert failures(run(of_net, ["net"], other)) == ["a"]
    assert failures(run(of_net, ["net"], other, selected="b/")) == []
    attacks = (*ATTACKS, "fgsm")
    assert failures(run(of_net, ["net"], both, attacks=attacks)) == []
    assert failures(run(of_net, ["net"], both, attacks=attacks, selected="a/easy/injection/fgsm"))
    (comparison, _) = attacked(run(of_net, ["net"], both, attacks=attacks))
    assert comparison.scope == "2 of 3 cases of a"


def test_a_part_leaves_it_to_merge(of_net: Path) -> None:
    """It may have new cases alone."""
    assert run(of_net, ["net"], {"b": "one"}, shard=Shard(1, 2)).joint == ()


def test_users_own_tests_count_for_the_whole_run(path: Path) -> None:
    """They have no verdict of their own at the end, but a run of them compares something."""
    mine = "test_own.py::test_mine"
    baseline = open_baseline(path, 2.0, "", update=True)
    rows = [row(baseline, Case("a", "easy", "injection", "rnd"), node_id=mine)]
    baseline_result(baseline, rows, [], ENVIRONMENT, {}, cut_short=False, shard=None)
    for name, fails in ((mine, []), ("test_own.py::test_renamed", ["a"])):
        baseline = open_baseline(path, 2.0, "", update=False)
        rows = [row(baseline, Case("a", "easy", "injection", "rnd"), node_id=name)]
        result = baseline_result(baseline, rows, [], ENVIRONMENT, {}, cut_short=False, shard=None)
        assert not is_node_id(name)
        assert failures(result) == fails
        assert all("1 of the repository's own tests" in x.comparison.text for x in result.joint)
    assert failures(run(path, ["net"], own=[mine])) == []
