"""Models called as `(x, adj)` that do not say how it is normalised."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from small_graphs import community_dataset
from torch import Tensor, nn

import grb_check
from grb_check.datasets.recall import Recall
from grb_check.datasets.views import validation_view
from grb_check.training.building import build_victim
from grb_check.victims.checks import AdjacencyWarning, TrainingStepWarning
from grb_check.victims.probed import Probed

DATASET = community_dataset()
CPU = torch.device("cpu")


class Classic(nn.Module):
    """One layer; raw degrees as factors make its logits huge."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 3)

    def forward(self, x: Tensor, adj: Tensor) -> Tensor:
        return torch.sparse.mm(adj, self.layer(x))


class Dense(Classic):
    def forward(self, x: Tensor, adj: Tensor) -> Tensor:
        return (adj + torch.zeros(adj.shape)) @ self.layer(x)


def rule_of(built: object, **more: object) -> object:
    victim = build_victim(built, DATASET, name="m", seed=0, device=CPU, **more)  # type: ignore[arg-type]
    return victim.adapter.convention.adj


def test_the_harness_trains_under_each_rule_and_says_which_validates_best() -> None:
    """And the user's module stays as the factory made it."""
    module = Classic()
    before = module.layer.weight.clone()
    with pytest.warns(AdjacencyWarning, match=r"adj is '(raw|row|sym)', .*\(raw .*%, row .*, sym"):
        assert rule_of(module) in ("raw", "row", "sym")
    assert torch.equal(module.layer.weight, before)


@pytest.mark.parametrize("adj", ["raw", "row", "sym", lambda matrix: matrix])
def test_what_the_user_says_holds(adj: object, recwarn: pytest.WarningsRecorder) -> None:
    """Nothing is tried, and nothing warned of."""
    wrapped = grb_check.wrap(Classic(), forward="x, adj", adj=adj)  # type: ignore[arg-type]
    assert rule_of(wrapped) is adj
    assert not [warning for warning in recwarn if warning.category is AdjacencyWarning]


def test_a_finished_model_gets_the_rule_under_which_it_is_best() -> None:
    """That of its own training, here with a matrix that other rules turn around."""
    view = validation_view(DATASET)

    class Only(nn.Module):
        """Right on the validation nodes if the rows of the matrix sum to 1, and wrong else."""

        def forward(self, x: Tensor, adj: Tensor) -> Tensor:
            known = view.y if len(x) == len(view.y) else torch.zeros(len(x), dtype=torch.int64)
            sums = torch.sparse.sum(adj, 1).to_dense()
            sign = 1.0 if torch.allclose(sums, torch.ones(len(x))) else -1.0
            return sign * nn.functional.one_hot(known, 3).float() + 0.0 * x[:, :3]

    with pytest.warns(
        AdjacencyWarning, match=r"adj is 'row', .*\(raw 0.0%, row 100.0%, sym 0.0%\)"
    ):
        assert rule_of(grb_check.Trained(Only().eval())) == "row"


def test_where_figures_are_recalls_the_best_rule_ranks_the_class_best() -> None:
    """Here it is the less accurate one."""
    dataset = replace(DATASET, recall=Recall(positive=1, false_alarms=0.1))
    view = validation_view(dataset)

    class Ranking(nn.Module):
        def forward(self, x: Tensor, adj: Tensor) -> Tensor:
            known = view.y if len(x) == len(view.y) else torch.zeros(len(x), dtype=torch.int64)
            sums = torch.sparse.sum(adj, 1).to_dense()
            if torch.allclose(sums, torch.ones(len(x))):
                ranks = (known == 1).float()
                zeros = torch.zeros_like(ranks)
                return torch.stack([zeros, ranks - 5, zeros - 1], dim=1) + 0.0 * x[:, :3]
            right = nn.functional.one_hot((known != 1).long() * known, 3).float()
            return right + 0.0 * x[:, :3]

    with pytest.warns(AdjacencyWarning, match="adj is 'row'"):
        victim = build_victim(
            grb_check.Trained(Ranking().eval()), dataset, name="m", seed=0, device=CPU
        )
    assert victim.adapter.convention.adj == "row"


def test_a_rule_that_the_first_repeat_chose_is_taken(recwarn: pytest.WarningsRecorder) -> None:
    """Without trying the others."""
    assert rule_of(Classic(), adj="sym") == "sym"
    assert not [warning for warning in recwarn if warning.category is AdjacencyWarning]


def test_a_model_that_fails_with_a_sparse_matrix_gets_a_dense_one() -> None:
    """It is said."""
    with pytest.warns(AdjacencyWarning) as caught:
        victim = build_victim(Dense(), DATASET, name="m", seed=0, device=CPU)
    assert victim.adapter.convention.dense
    assert any("gets a dense one" in str(warning.message) for warning in caught)


class OfNonzero(Classic):
    """Fails with sparse matrices, and at nodes without edges."""

    def forward(self, x: Tensor, adj: Tensor) -> Tensor:
        ends = adj.nonzero().T
        if not torch.isin(torch.arange(len(x)), ends[0]).all():
            raise ValueError("a node without edges")
        return self.layer(adj @ x)


def test_a_model_that_fails_at_nodes_without_edges_gets_self_loops() -> None:
    """The matrix as it is then has no figure."""
    with pytest.warns(AdjacencyWarning, match=r"raw failed, row .*%, sym .*%"):
        victim = build_victim(OfNonzero(), DATASET, name="m", seed=0, device=CPU)
    assert victim.adapter.convention.dense


def test_an_encoder_gets_the_rule_under_which_its_probe_is_best() -> None:
    """Here one whose embeddings are nothing under the others."""

    class Encodes(nn.Module):
        def encode(self, x: Tensor, adj: Tensor) -> Tensor:
            sums = torch.sparse.sum(adj, 1).to_dense()
            return x if torch.allclose(sums, torch.ones(len(x))) else torch.zeros_like(x)

    with pytest.warns(AdjacencyWarning, match="adj is 'row'"):
        victim = build_victim(
            grb_check.Encoder(Encodes().eval()), DATASET, name="m", seed=0, device=CPU
        )
    assert isinstance(victim.module, Probed)
    assert victim.module.adapter.convention.adj == "row"


def test_a_training_step_that_is_not_used_is_named() -> None:
    """As of a LightningModule; a fit of the user's takes its place."""

    class Lightning(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 3)

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return self.layer(x)

        def training_step(self, batch: object, index: int) -> None: ...

    with pytest.warns(TrainingStepWarning, match=r"SelfTrained\(module, fit\)"):
        build_victim(Lightning(), DATASET, name="m", seed=0, device=CPU)
