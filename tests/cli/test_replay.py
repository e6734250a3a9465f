"""`python -m grb_check replay` on evidence of a tiny model."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tiny import write_dataset
from torch import Tensor

import grb_check
from grb_check import datasets
from grb_check.__main__ import main
from grb_check.attacks.threat import Perturbation, joined
from grb_check.cases.case import Case
from grb_check.cli import replay as command
from grb_check.evaluation.evaluator import Evaluator
from grb_check.failures.evidence import (
    CaseLimits,
    Evidence,
    SavedDataset,
    SavedModel,
    SavedRepeat,
    read,
    write,
)
from grb_check.failures.replay import Replay, replaying, sizes
from grb_check.store.store import Store
from grb_check.victims.subject import as_subject

MODELS = """
    import torch


    class Fixed(torch.nn.Module):
        def __init__(self, num_features, num_classes, neighbours, noise):
            super().__init__()
            weight = torch.eye(num_features, num_classes) + noise * torch.rand(1)
            self.weight = torch.nn.Parameter(weight)
            self.neighbours = neighbours

        def fit(self, data):
            pass

        def forward(self, x, edge_index):
            around = torch.zeros_like(x).index_add(0, edge_index[0], x[edge_index[1]])
            return (x + self.neighbours * around) @ self.weight


    def build(num_features, num_classes, neighbours=1.0):
        return Fixed(num_features, num_classes, neighbours, 0.0)


    def deaf(num_features, num_classes):
        return Fixed(num_features, num_classes, 0.0, 0.0)


    def random(num_features, num_classes, seed):
        random.calls += 1
        return Fixed(num_features, num_classes, 1.0, random.calls)


    random.calls = 0


    def broken(num_features, num_classes):
        raise ValueError("the factory's own fault")


    def leaves(num_features, num_classes):
        raise SystemExit(1)


    class Leaves(Fixed):
        def forward(self, x, edge_index):
            raise SystemExit(1)


    def leaves_later(num_features, num_classes):
        return Leaves(num_features, num_classes, 1.0, 0.0)


    def interrupted(num_features, num_classes):
        raise KeyboardInterrupt
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder with models, a dataset and the evidence of a failed case."""
    folder = tmp_path_factory.mktemp("replay")
    (folder / "replayed_models.py").write_text(textwrap.dedent(MODELS))
    write_dataset(folder / "tiny")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setenv("GRB_CHECK_DATA", str(folder / "data"))
        failed(folder, "replayed_models:build", "kept")
        failed(folder, "replayed_models:random", "random")
    return folder


def failed(
    home: Path,
    model: str,
    name: str,
    attack: str = "grbcd+white-box",
    made: Callable[[Replay], Perturbation] | None = None,
) -> None:
    """Evidence of added edges between targets of different classes, as of a white-box attack."""
    evaluator = Evaluator(store=Store(None), device="cpu")
    source = datasets.find(str(home / "tiny"))
    case = Case("tiny", "full", "modification", attack)
    repeats = []
    for seed in range(2):
        with replaying(evaluator, as_subject(model), source, case, seed) as session:
            given = Perturbation(added_edges=between_classes(session))
            perturbation = given if made is None else made(session)
            repeats.append(
                SavedRepeat(
                    seed=seed,
                    clean=session.accuracy(session.before),
                    attacked=session.accuracy(session.after(perturbation)),
                    method="adaptive",
                    member="",
                    weights=session.model.weights,
                    perturbation=perturbation,
                )
            )
    dataset = evaluator.dataset(source)
    evidence = Evidence(
        case=case,
        model=SavedModel(name=model, target=model),
        data=SavedDataset(
            spec=source.given,
            split="grb",
            training="inductive",
            features="grb",
            folders=(),
            base=str(home),
            fingerprint=dataset.fingerprint(),
            sizes=sizes(dataset),
        ),
        limits=CaseLimits(drop=0.01, clean=0.1, rule="max drop"),
        message="drop 12.3% > limit 1.0% (max drop)",
        device="cpu",
        repeats=tuple(repeats),
    )
    write(home / f"{name}.npz", evidence)


def for_each(session: Replay) -> Perturbation:
    """For each target all the new edges that it may have, to nodes of other classes."""
    graph, parts = session.graph, []
    budgets = session.threat.budgets_of_targets().tolist()
    for target, budget in zip(session.targets.tolist(), budgets, strict=True):
        near = graph.edge_index[1, graph.edge_index[0] == target]
        others = graph.y != graph.y[target]
        others[near] = False
        ends = others.nonzero().squeeze(1)[:budget]
        pairs = torch.stack([torch.full_like(ends, target), ends]).sort(dim=0).values
        parts.append(Perturbation(added_edges=pairs))
    return joined(parts)


def between_classes(session: Replay) -> Tensor:
    """int64 [2, m], the allowed number of new edges between targets of different classes."""
    pairs = torch.combinations(session.targets).T
    graph = session.graph
    codes = graph.edge_index[0] * graph.num_nodes + graph.edge_index[1]
    present = torch.isin(pairs[0] * graph.num_nodes + pairs[1], codes)
    differ = graph.y[pairs[0]] != graph.y[pairs[1]]
    return pairs[:, differ & ~present][:, ::40][:, : session.threat.edge_budget]


@pytest.fixture
def replay(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, list[str]]]:
    """Return a function that runs the command: exit code and lines."""
    monkeypatch.chdir(home)
    monkeypatch.syspath_prepend(home)
    monkeypatch.setenv("GRB_CHECK_DATA", str(home / "data"))

    def run(*arguments: str) -> tuple[int, list[str]]:
        code = main(["replay", *map(str, arguments)])
        said = capsys.readouterr()
        return code, (said.out + said.err).splitlines()

    return run


def test_the_same_model_fails_with_the_same_figures(home: Path, replay) -> None:
    """It is trained again from the seed; `git bisect run` treats 1 as bad."""
    code, lines = replay("kept.npz")
    evidence = read(home / "kept.npz")
    first = evidence.repeats[0]
    assert code == 1
    assert lines[0] == f"{evidence.case.id} of replayed_models:build, 2 repeats"
    assert lines[1] == f"recorded: {evidence.message}"
    assert lines[2] == (
        f"repeat 1: clean {first.clean:.1%} -> attacked {first.attacked:.1%}, drop "
        f"{first.drop:.1%}, as recorded"
    )
    assert lines[3].endswith("as recorded")
    assert lines[4].startswith("mean: clean ")
    assert lines[5].startswith("fails: drop ")
    assert lines[5].endswith("> limit 1.0% (max drop)")
    assert len(lines) == 6


def test_each_target_is_shown_with_its_own_changes(home: Path, replay, monkeypatch) -> None:
    """Those that are lost: the first ones, or the one that is asked for."""
    monkeypatch.setattr(command, "SHOWN", 2)
    failed(home, "replayed_models:build", "each", "sga", for_each)
    evaluator = Evaluator(store=Store(None), device="cpu")
    source, case = datasets.find(str(home / "tiny")), Case("tiny", "full", "modification", "sga")
    with replaying(evaluator, as_subject("replayed_models:build"), source, case, 0) as session:
        perturbation = for_each(session)
        after = session.after(perturbation)
        lost = (session.before == session.classes) & (after != session.classes)
        expected = {}
        for index in lost.nonzero().squeeze(1).tolist():
            added = perturbation.of_target(index).added_edges.T.tolist()
            words = ", ".join(f"{one}-{other}" for one, other in added)
            target = int(session.targets[index])
            expected[target] = f"  target {target} has class {after[index]} with {words}"
        right = session.before == session.classes
        kept, wrong = (int(session.targets[mask][0]) for mask in (right & ~lost, ~right))
    assert len(expected) > 2
    _, lines = replay("each.npz")
    first, second = (at for at, line in enumerate(lines) if line.startswith("repeat "))
    assert lines[first + 1 : second] == [
        *[*expected.values()][:2],
        f"  and {len(expected) - 2} others; --target=NUMBER shows one",
    ]
    last = [*expected][-1]
    _, lines = replay("each.npz", "--target", str(last))
    assert lines.count(expected[last]) == 2  # in each repeat
    for target, words in ((kept, "keeps its class"), (wrong, "was wrong without the attack")):
        _, lines = replay("each.npz", "--target", str(target))
        assert lines.count(f"  target {target} {words}") == 2
    for file, target, said in (("each", 999, "no such target"), ("kept", kept, "single nodes")):
        code, lines = replay(f"{file}.npz", "--target", str(target))
        assert code == 128
        assert said in lines[-1]


def test_another_device_is_reported(home: Path, replay) -> None:
    """As are other versions."""
    versions = {"grb_check": "0.0.1"}
    write(home / "gpu.npz", replace(read(home / "kept.npz"), device="cuda", versions=versions))
    assert replay("gpu.npz")[1][2] == (
        f"recorded with grb_check 0.0.1, now {grb_check.__version__}; device cuda, now cpu"
    )


def test_an_unexpected_error_is_not_a_failure_of_the_model(
    home: Path, replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`git bisect run` would treat Python's own exit code as a bad commit."""

    def fails(*_: object) -> None:
        raise MemoryError("no memory")

    monkeypatch.setattr(Replay, "after", fails)
    code, lines = replay("kept.npz")
    assert code == 125
    assert lines[-1] == "MemoryError: no memory"


def test_a_better_model_passes(replay) -> None:
    """The output says that its weights differ."""
    code, lines = replay("kept.npz", "--grb-model", "replayed_models:deaf")
    assert code == 0
    assert lines[0].endswith("of deaf, 2 repeats")
    assert "drop 0.0%; recorded: clean " in lines[2]
    assert lines[-1] == "passes: drop 0.0% <= limit 1.0% (max drop)"


def test_a_training_that_is_not_deterministic_is_reported(replay) -> None:
    """The perturbation was made for other weights."""
    code, lines = replay("random.npz")
    assert code == 1
    assert lines[-2].startswith(
        "the weights of the model are not the recorded ones in repeat 1, 2: other code"
    )
    assert lines[-2].endswith("; the perturbation was made for the recorded ones")


def test_shrinking_shows_and_writes_the_smallest_part(home: Path, replay) -> None:
    """The small perturbation is evidence itself."""
    code, lines = replay("kept.npz", "--grb-shrink")
    assert code == 1
    at = next(number for number, line in enumerate(lines) if line.startswith("smallest"))
    assert lines[at].startswith("smallest counter-example: ")
    assert lines[-1] == "kept as kept-smallest.npz"
    small, whole = read(home / "kept-smallest.npz"), read(home / "kept.npz")
    assert len(small.repeats) == 1
    assert small.repeats[0].drop > 0.01
    counts = [
        sum(tensor.shape[-1] for tensor in evidence.repeats[0].perturbation.tensors())
        for evidence in (small, whole)
    ]
    assert counts[0] < counts[1]
    code, lines = replay("kept-smallest.npz")
    assert code == 1
    assert lines[2].endswith("as recorded")
    assert replay("kept.npz", "--grb-model", "replayed_models:deaf", "--grb-shrink")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["none.npz"], 128, "none.npz': No such file"),
        (["kept.npz", "--grb-model", "replayed_models"], 128, "must have the form"),
        (["kept.npz", "--grb-model-args", "neighbours"], 128, "must have the form name=value"),
        (["kept.npz", "--grb-dataset", "no-such"], 128, "no such name"),
        (["kept.npz", "--grb-data", "no-such"], 128, "is not a directory"),
        (["kept.npz", "--grb-device", "cuda:99"], 128, "cannot be used here"),
        (["kept.npz", "--grb-model", "replayed_models:gone"], 125, "has no attribute 'gone'"),
        (["kept.npz", "--grb-model", "gone:build"], 125, "there is no module gone"),
        (["kept.npz", "--grb-model", "replayed_models:broken"], 125, "the factory's own fault"),
        (["kept.npz", "--grb-model", "replayed_models:leaves"], 125, "SystemExit"),
        (["kept.npz", "--grb-model", "replayed_models:leaves_later"], 125, "SystemExit"),
        (["kept.npz", "--grb-dataset", "synthetic-cora"], 125, "2,680 nodes, recorded 160"),
    ],
)
def test_what_cannot_be_judged_is_neither_good_nor_bad(
    replay, arguments: list[str], code: int, words: str
) -> None:
    """128 for a wrong command, 125 for a commit that `git bisect run` skips."""
    status, lines = replay(*arguments)
    assert status == code
    assert words in "\n".join(lines)


@pytest.mark.slow
def test_an_interrupt_and_a_closed_pipe_stop_a_bisection(home: Path, replay) -> None:
    """As in shells; 1 would be a bad commit."""
    assert replay("kept.npz", "--grb-model", "replayed_models:interrupted")[0] == 130
    command = f"{sys.executable} -m grb_check replay kept.npz 2>&1 | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=home, capture_output=True, text=True)
    assert done.stdout.split() == ["141"]


def test_data_that_moved_with_the_folder_are_found(home: Path, replay, monkeypatch) -> None:
    """Evidence from another machine has its paths."""
    evidence = read(home / "kept.npz")
    data = replace(evidence.data, base="/builds/7/project", spec="/builds/7/project/tiny")
    write(home / "moved.npz", replace(evidence, data=data))
    assert replay("moved.npz")[0] == 1
    monkeypatch.chdir(home / "tiny")
    code, lines = replay(home / "moved.npz")
    assert code == 128
    assert "there is no directory '" in lines[-1]
    assert replay(home / "moved.npz", "--grb-dataset", home / "tiny")[0] == 1


def test_a_model_from_a_fixture_has_to_be_named(home: Path, replay) -> None:
    """Its factory is unknown."""
    evidence = read(home / "kept.npz")
    write(
        home / "fixture.npz",
        replace(evidence, model=replace(evidence.model, target="", name="Net")),
    )
    code, lines = replay("fixture.npz")
    assert code == 128
    assert "name a factory of it with --grb-model" in lines[-1]
    assert replay("fixture.npz", "--grb-model", "replayed_models:build")[0] == 1


def test_a_perturbation_beyond_its_threat_is_refused(home: Path, replay) -> None:
    """It is verified, whatever the file says."""
    evidence = read(home / "kept.npz")
    first = evidence.repeats[0]
    twice = Perturbation(added_edges=torch.tensor([[0, 0], [0, 0]]))
    write(home / "loops.npz", replace(evidence, repeats=(replace(first, perturbation=twice),)))
    code, lines = replay("loops.npz")
    assert code == 128
    assert "self-loops" in lines[-1]
