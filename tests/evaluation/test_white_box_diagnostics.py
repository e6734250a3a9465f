"""Each diagnostic detects its defect, and finds nothing on plain models."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
import torch
import torch.nn.functional as F
import trial_spies
from tiny import write_dataset
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn.models import GCN

from grb_check import Trained, datasets
from grb_check.attacks.objectives import tanh_margin
from grb_check.attacks.scenarios import Scenario
from grb_check.attacks.threat import Knowledge, Perturbation, Threat
from grb_check.cases.case import Case
from grb_check.cases.outcomes import Measurement
from grb_check.errors import GradientError
from grb_check.evaluation import fallbacks, white_box
from grb_check.evaluation.evaluator import Evaluator
from grb_check.evaluation.trained_model import TrainedModel, predict
from grb_check.evaluation.white_box_diagnostics import gradient_doubts
from grb_check.gradients.victim import Victim
from grb_check.store.store import Store
from grb_check.victims.adapter import Adapter
from grb_check.victims.conventions import PLAIN
from grb_check.victims.subject import as_subject


@dataclass(frozen=True)
class Greedy:
    """The flips with the largest gradient, among all edges and as many other pairs.

    `used` is the share of the budget that the white-box attack uses; the black-box one uses all.
    """

    used: float = 1.0
    knowledge: Knowledge = "white-box"
    name: ClassVar[str] = "greedy"
    scenario: ClassVar[Scenario] = "modification"
    version: ClassVar[int] = 1

    def perturb(
        self, graph: Data, threat: Threat, model: Any, generator: torch.Generator
    ) -> Perturbation:
        edges = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]]
        ends = torch.randint(graph.num_nodes, (2, 4 * edges.shape[1]), generator=generator)
        ends = ends[:, ends[0] < ends[1]].unique(dim=1)
        present = edges[0] * graph.num_nodes + edges[1]
        others = ends[:, ~torch.isin(ends[0] * graph.num_nodes + ends[1], present)]
        pairs = torch.cat([edges, others], dim=1)
        weights = torch.cat([torch.ones(edges.shape[1]), torch.zeros(others.shape[1])])
        logits_of = model.with_pairs(graph.x, graph.edge_index, pairs, threat.targets)
        if logits_of is None:
            raise GradientError("no structure gradient of this model")
        loss = tanh_margin(logits_of(weights.requires_grad_()), graph.y[threat.targets])
        (gradient,) = torch.autograd.grad(loss, weights)
        share = self.used if self.knowledge == "white-box" else 1.0
        gain = gradient * (1 - 2 * weights.detach())
        best = gain.argsort(descending=True, stable=True)[: int(share * threat.edge_budget)]
        chosen, is_edge = pairs[:, best], best < edges.shape[1]
        return Perturbation(added_edges=chosen[:, ~is_edge], removed_edges=chosen[:, is_edge])


GREEDY = "modification/greedy+budget=0.25"
PGD = "injection/pgd+white-box+iterations=50+budget=0.25"


class Plain(torch.nn.Module):
    """PyG's GCN, trained; subclasses add a defect."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = copy.deepcopy(inner)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        logits: Tensor = self.inner(x, edge_index, edge_weight=edge_weight)
        return logits


class Quantised(Plain):
    """Rounds its logits, so that their gradient is zero."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        return (4 * super().forward(x, edge_index, edge_weight)).round() / 4


class Saturated(Plain):
    """Returns probabilities of exactly 0 and 1."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        return (1e4 * super().forward(x, edge_index, edge_weight)).softmax(dim=1)


class Labelling(Plain):
    """Returns the class alone."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        logits = super().forward(x, edge_index, edge_weight)
        return F.one_hot(logits.argmax(1), logits.shape[1]).float()


class Detached(Plain):
    """Blocks the gradient."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        return super().forward(x, edge_index, edge_weight).detach()


class _Backwardless(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        raise NotImplementedError("no backward pass")


class _OfOwnRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, own: Tensor) -> Tensor:
        return logits.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor]:  # type: ignore[override]
        return None, gradient


class Deaf(Plain):
    """Has a gradient in each node's own row, and none in those of its neighbours."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        logits = super().forward(x, edge_index, edge_weight)
        mixed: Tensor = _OfOwnRows.apply(logits.detach(), x[:, :3])
        return mixed


class Scaled(Plain):
    """Has logits in other units."""

    factor = 1e4

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        return self.factor * super().forward(x, edge_index, edge_weight)


class Small(Scaled):
    """Of hardly any size."""

    factor = 1e-5


class Backwardless(Plain):
    """Has a backward pass that raises."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        logits: Tensor = _Backwardless.apply(super().forward(x, edge_index, edge_weight))
        return logits


class ThroughNumpy(Plain):
    """Computes in numpy, which refuses tensors that require a gradient."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        return super().forward(torch.from_numpy(x.numpy()), edge_index, edge_weight)


class Decoy(Plain):
    """Has the gradient of another model, by `detach`."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        logits = super().forward(x, edge_index, edge_weight)
        other = logits[:, [1, 2, 0]]
        return logits.detach() + other - other.detach()


class _OfAnother(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor) -> Tensor:
        return logits.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return gradient[:, [2, 0, 1]]


class Misleading(Plain):
    """Has the gradient of another model, by a backward pass of its own."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        logits: Tensor = _OfAnother.apply(super().forward(x, edge_index, edge_weight))
        return logits


class Filtering(Plain):
    """Removes edges between dissimilar nodes."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:  # type: ignore[override]
        unit = F.normalize(x.detach(), dim=1)
        cosine = (unit[edge_index[0]] * unit[edge_index[1]]).sum(1)
        return super().forward(x, edge_index[:, cosine > 0.2])


class Dropping(Plain):
    """Keeps its dropout active."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        return super().forward(F.dropout(x, 0.6), edge_index, edge_weight)


class Caching(Plain):
    """Keeps the first graph of the size of the whole one; earlier checks use smaller graphs."""

    def __init__(self, inner: torch.nn.Module, size: int) -> None:
        super().__init__(inner)
        self.size = size
        self.kept: Tensor | None = None

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:  # type: ignore[override]
        if x.shape[0] == self.size:
            if self.kept is None:
                self.kept = edge_index
            edge_index = self.kept
        return super().forward(x, edge_index)


class Counting(Plain):
    """Adds more to one class with every call."""

    calls = 0

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        self.calls += 1
        favoured = torch.arange(3) == self.calls % 3
        return super().forward(x, edge_index, edge_weight) + 100 * favoured


class Drifting(Plain):
    """Normalises with statistics that change with every call."""

    def __init__(self, inner: torch.nn.Module, size: int) -> None:
        super().__init__(inner)
        self.size = size
        self.seen = torch.zeros(())

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        if x.shape[0] == self.size:
            self.seen = self.seen + 0.2
        return super().forward(x - self.seen, edge_index, edge_weight)


@dataclass(frozen=True)
class Bench:
    """A tiny dataset with a trained GCN; surrogates and references are made once, and attacked once
    for each way to search."""

    evaluator: Evaluator
    source: datasets.Source
    inner: torch.nn.Module
    size: int

    def repeat(self, model: torch.nn.Module, attack: str = GREEDY) -> Measurement:
        scenario, name = attack.split("/")
        subject = as_subject(Trained(model.eval()))
        case = Case("tiny", "full", scenario, name)
        return self.evaluator.outcome(subject, self.source, case, 1).repeats[0]

    def found(self, model: torch.nn.Module, attack: str = GREEDY) -> set[str]:
        return {finding.name for finding in self.repeat(model, attack).diagnostics}


@pytest.fixture(autouse=True)
def short_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is found about a model does not depend on how far a search gets."""
    monkeypatch.setattr(fallbacks, "FORWARDS", 50)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    source = datasets.find(str(write_dataset(tmp_path_factory.mktemp("bench") / "tiny")))
    dataset = datasets.load(source)
    torch.manual_seed(0)
    inner = GCN(dataset.num_features, 16, 2, dataset.num_classes)
    optimiser = torch.optim.Adam(inner.parameters(), lr=0.02)
    graph = dataset.graph
    for _ in range(100):
        optimiser.zero_grad()
        logits = inner(graph.x, graph.edge_index)[dataset.train]
        F.cross_entropy(logits, graph.y[dataset.train]).backward()
        optimiser.step()
    attacks: Any = {("modification", attack.name): attack for attack in (Greedy(), Half())}
    store = Store(tmp_path_factory.mktemp("store"))
    evaluator = Evaluator(store=store, device="cpu", attacks=attacks)
    return Bench(evaluator, source, inner.eval(), dataset.num_nodes)


@pytest.mark.slow
def test_plain_models_have_no_finding(bench: Bench) -> None:
    """PyG's GCN and the bundled one, for edges and features."""
    bundled = bench.evaluator._cache(bench.source).harness.surrogate("gcn").victim.module
    for model in (Plain(bench.inner), bench.inner, bundled):
        for attack in (GREEDY, PGD):
            repeat = bench.repeat(copy.deepcopy(model), attack)
            assert repeat.diagnostics == ()
            assert repeat.victim.drop > 0.1
            assert repeat.method == "adaptive" or attack == PGD  # may lose by a target


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "attack"), [(Quantised, PGD), (Saturated, GREEDY)])
def test_answers_without_a_slope_have_no_gradient(
    bench: Bench, kind: type[Plain], attack: str
) -> None:
    """A search by answers is stronger then, and counts."""
    repeat = bench.repeat(kind(bench.inner), attack)
    assert "no-gradient" in {finding.name for finding in repeat.diagnostics}
    assert repeat.method == "score-based"
    assert repeat.notes[-1].endswith(
        "a search by the model's answers beat its gradients, and counts"
    )
    assert repeat.victim.drop > 0.1


@pytest.mark.slow
def test_where_nothing_is_left_nothing_is_doubted(bench: Bench) -> None:
    """No other search can be stronger, whatever the gradient is."""
    repeat = bench.repeat(Quantised(bench.inner), "injection/pgd+white-box+budget=1.0")
    assert repeat.victim.attacked == 0.0
    assert repeat.diagnostics == ()
    assert "score-based" not in repeat.left_by


@pytest.mark.slow
def test_answers_that_let_no_gradient_through_have_none(bench: Bench) -> None:
    """Neither of edges nor of features; a search by queries replaces the attack."""
    for attack in (GREEDY, PGD):
        repeat = bench.repeat(Backwardless(bench.inner), attack)
        assert [finding.name for finding in repeat.diagnostics] == ["no-gradient"]
        assert repeat.diagnostics[0].figure == 1.0
        assert repeat.method == "score-based"
        assert repeat.victim.drop > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("attack", [GREEDY, PGD])
@pytest.mark.parametrize("kind", [Detached, Decoy])
def test_what_stops_a_gradient_is_no_obstacle(bench: Bench, kind: type[Plain], attack: str) -> None:
    """The attack is the one on the same model without it; a note says so."""
    repeat, honest = (bench.repeat(of(bench.inner), attack) for of in (kind, Plain))
    assert repeat.diagnostics == ()
    assert repeat.victim == honest.victim
    assert any("its forward stops gradients" in note for note in repeat.notes)
    assert not any("its forward stops gradients" in note for note in honest.notes)


@pytest.mark.slow
@pytest.mark.parametrize("attack", [GREEDY, PGD])
@pytest.mark.parametrize("kind", [Scaled, Small])
def test_the_scale_of_logits_is_no_obstacle(bench: Bench, kind: type[Plain], attack: str) -> None:
    """Objectives see margins of the usual size."""
    repeat, honest = (bench.repeat(of(bench.inner), attack) for of in (kind, Plain))
    names = {finding.name for finding in repeat.diagnostics}
    assert not names & {"no-gradient", "wrong-gradient", "no-effect"}
    assert repeat.victim.clean == honest.victim.clean
    assert repeat.victim.attacked <= honest.victim.attacked + 0.03


@pytest.mark.slow
def test_a_gradient_that_is_missing_in_injected_rows_is_found_out(bench: Bench) -> None:
    """Though each target has one in its own row; a search by answers does not need it."""
    repeat, honest = (bench.repeat(of(bench.inner), PGD) for of in (Deaf, Plain))
    (finding,) = [finding for finding in repeat.diagnostics if finding.name == "no-gradient"]
    assert "with respect to injected features" in finding.text
    assert repeat.victim.attacked <= honest.victim.attacked + 0.05


@pytest.mark.slow
@pytest.mark.parametrize("attack", [GREEDY, PGD])
def test_a_gradient_of_another_function_is_found_out(bench: Bench, attack: str) -> None:
    """An imitation, or a search by answers, leaves no more than the same model with its own."""
    repeat = bench.repeat(Misleading(bench.inner), attack)
    assert "wrong-gradient" in {finding.name for finding in repeat.diagnostics}
    honest = bench.repeat(Plain(bench.inner), attack)
    assert repeat.victim.attacked <= honest.victim.attacked + 0.05


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Labelling, Quantised, Saturated])
def test_steps_are_no_obstacle_to_a_search_by_answers(bench: Bench, kind: type[Plain]) -> None:
    """It follows the gradient of the model without its steps."""
    repeat, honest = (bench.repeat(of(bench.inner), PGD) for of in (kind, Plain))
    assert "no-gradient" in {finding.name for finding in repeat.diagnostics}
    assert repeat.victim.attacked <= honest.victim.attacked + 0.05


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Quantised, Backwardless, ThroughNumpy])
def test_an_attack_that_needs_no_gradient_runs_on_models_without(
    bench: Bench, kind: type[Plain]
) -> None:
    """The checks of the gradient say that there is none; they do not fail the case."""
    repeat = bench.repeat(kind(bench.inner), "injection/rnd+white-box+budget=0.25")
    assert [finding.name for finding in repeat.diagnostics if finding.name == "no-gradient"]


@pytest.mark.slow
def test_a_filter_of_links_is_found_out_and_passed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More is lost than to PGD alone, which is blind to links that were removed."""
    repeat = bench.repeat(Filtering(bench.inner), PGD)
    assert [finding.name for finding in repeat.diagnostics] == ["cut-off"]
    monkeypatch.setattr(fallbacks, "starts_from_blends", lambda _: False)
    monkeypatch.setattr(white_box, "searched", lambda _, __, adaptive, *___, **____: adaptive)
    alone = bench.repeat(Filtering(bench.inner), PGD)
    assert repeat.victim.attacked < alone.victim.attacked


class Wary(torch.nn.Module):
    """Listens only to senders without large values."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        receiver, sender = edge_index
        heard = (x.detach().abs().amax(1) <= 5).float()[sender]
        return x[:, :3].index_add(0, receiver, heard[:, None] * x[sender, :3])


def test_a_finding_says_which_attack_was_refused() -> None:
    """The attack itself, or only the one on a surrogate, whose rows are unlike the data."""
    spy = trial_spies.Spy(knowledge="white-box")
    asked, graph = trial_spies.trial(spy), trial_spies.DATASET.graph
    victim = Victim(Adapter(Wary().eval(), "wary", PLAIN), 3)
    model = TrainedModel(victim, predict(victim, graph, 0))
    small = spy.perturb(graph, asked.threat, victim, torch.Generator().manual_seed(0))
    large = replace(small, injected_x=small.injected_x + 10)
    for own, other, text in (
        (small, small, ""),
        (small, large, "keep their logits under the same attack on a surrogate (limit 10%)"),
        (large, large, "keep their logits (limit 10%)"),
    ):
        found = gradient_doubts(asked, model, [own], (other, False))
        cut_off = [finding.text for finding in found if finding.name == "cut-off"]
        assert [one.endswith(text) for one in cut_off] == [True] * bool(text)


@pytest.mark.slow
def test_dropout_left_on_is_a_random_forward(bench: Bench) -> None:
    """It is not reported as kept state."""
    names = bench.found(Dropping(bench.inner))
    assert "random-forward" in names
    assert "kept-state" not in names


@pytest.mark.slow
def test_a_graph_that_is_kept_is_found_out(bench: Bench) -> None:
    """Checks before the run cannot notice it; a copy that has seen no graph disagrees."""
    repeat = bench.repeat(Caching(bench.inner, bench.size))
    (finding,) = [
        diagnostic for diagnostic in repeat.diagnostics if diagnostic.name == "kept-state"
    ]
    assert "on the attacked graph differ from those of a copy" in finding.text


@pytest.mark.slow
def test_answers_that_change_with_what_was_seen_are_found_out(bench: Bench) -> None:
    """Predictions on the clean graph itself change."""
    repeat = bench.repeat(Drifting(bench.inner, bench.size))
    (finding,) = [
        diagnostic for diagnostic in repeat.diagnostics if diagnostic.name == "kept-state"
    ]
    assert "on the clean graph differ after the attack" in finding.text


@pytest.mark.slow
def test_a_counter_is_kept_state_and_not_a_random_forward(bench: Bench) -> None:
    """Two calls with the same seed differ."""
    names = {finding.name for finding in bench.repeat(Counting(bench.inner), GREEDY).diagnostics}
    assert "kept-state" in names
    assert "random-forward" not in names


@pytest.mark.slow
def test_an_attack_that_does_nothing_is_found_out(bench: Bench) -> None:
    """It has no effect, and random flips are stronger."""
    repeat = bench.repeat(Plain(bench.inner), "modification/greedy+used=0.0+budget=1.0")
    names = {finding.name for finding in repeat.diagnostics}
    assert {"no-effect", "random-stronger", "transfer-stronger"} <= names
    assert repeat.left_by[repeat.method] <= repeat.left_by["transferred"] < repeat.victim.clean


@pytest.mark.slow
@pytest.mark.parametrize("structure", ["rnd", "none"])
def test_an_attack_on_features_is_judged_by_their_gradient(bench: Bench, structure: str) -> None:
    """Even if it also flips edges; without flips it is not compared with random flips."""

    class Blind(Plain):
        def forward(
            self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None
        ) -> Tensor:
            return super().forward((x * 1e3).round() / 1e3, edge_index, edge_weight)

    repeat = bench.repeat(Blind(bench.inner), f"modification/pgd+white-box+structure={structure}")
    texts = {finding.name: finding.text for finding in repeat.diagnostics}
    assert "features" in texts["no-gradient"]
    assert structure == "rnd" or "random-stronger" not in texts
    assert repeat.spent["modified_nodes"]


class Half:
    """Half of the flips of the greedy attack; without a black-box variant."""

    name, scenario, knowledge = "half", "modification", "white-box"

    def perturb(self, *given: Any) -> Perturbation:
        return Greedy(used=0.5).perturb(*given)


def test_an_attack_that_leaves_half_its_budget_is_found_out(bench: Bench) -> None:
    """It is reported however strong the attack is."""
    assert bench.found(Plain(bench.inner), "modification/half+budget=0.25") == {"budget-unused"}
