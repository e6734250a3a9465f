"""The trained model that properties are checked on, and the comparison of its answers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import torch
from hypothesis import reject
from hypothesis.strategies import SearchStrategy
from torch import Tensor, nn
from torch_geometric.data import Data

from grb_check.datasets.graph_dataset import AnyDataset
from grb_check.errors import ModelError
from grb_check.gradients.victim import Victim
from grb_check.user_code.randomness import isolated_randomness
from grb_check.victims.adapter import Adapter
from grb_check.victims.subject import Subject

# Rounding of a value that is summed from hundreds of others in each of a few layers, in units of
# the dtype's precision, relative to the largest value of the answer: 1.2e-4 for float32.
ROUNDING: Final = 2**10

Draw: TypeAlias = Callable[[SearchStrategy[Any]], Any]


class BrokenPropertyError(Exception):
    """A property does not hold.

    Attributes:
        graph: on which it does not; None if no graph matters.
    """

    def __init__(self, message: str, graph: Data | None) -> None:
        super().__init__(message)
        self.graph = graph


class NotApplicableError(Exception):
    """A property says nothing about a model, or cannot be checked here; the message says why."""


@dataclass(frozen=True, eq=False)
class CheckedModel:
    """A trained model.

    Attributes:
        victim: frozen, in evaluation mode.
        subject: that it was built from.
        dataset: that it was trained on.
        of_graphs: whether it classifies graphs.
        device: that it is on.
        dtype: of its weights and of the features that it is given.
    """

    victim: Victim
    subject: Subject
    dataset: AnyDataset
    of_graphs: bool
    device: torch.device
    dtype: torch.dtype = torch.float32

    @property
    def num_features(self) -> int:
        """Columns of `x`."""
        return self.dataset.num_features

    def around(self, module: nn.Module) -> CheckedModel:
        """Return the model with another module in the place of its own."""
        return self.called_by(replace(self.victim.adapter, module=module))

    def fresh(self) -> CheckedModel:
        """Return the model as it was trained, whatever it keeps of calls; itself if that fails."""
        try:
            return self.around(copy.deepcopy(self.victim.module))
        except Exception:  # whatever a user's attribute raises
            return self

    def called_by(self, adapter: Adapter) -> CheckedModel:
        """Return the model with another adapter."""
        return replace(self, victim=replace(self.victim, adapter=adapter))

    def logits(self, graph: Data, edge_weight: Tensor | None = None) -> Tensor:
        """Return the logits float [rows, c] of a graph on the model's device.

        Args:
            graph: with `x` float [N, d], `edge_index` [2, e], and for models of graphs `batch`
                int64 [N], or nothing for a single one.
            edge_weight: float [e].

        Raises:
            ModelError: the model raises, or returns something else.
        """
        x = graph.x.to(self.device, self.dtype)
        edge_index = graph.edge_index.to(self.device)
        victim = self.victim
        if self.of_graphs:
            batch = graph.get("batch")
            batch = torch.zeros(len(x), dtype=torch.int64) if batch is None else batch
            victim = victim.on_graphs(batch.to(self.device))
        return victim(x, edge_index, edge_weight)

    def answer(self, graph: Data, *, seed: int = 0, edge_weight: Tensor | None = None) -> Tensor:
        """Return the logits float [rows, c] of a graph on the CPU, without a gradient.

        Args:
            graph: see `logits`.
            seed: of the global random states.
            edge_weight: float [e].

        Raises:
            BrokenPropertyError: the model raises, or returns something else.
        """
        try:
            with isolated_randomness(seed), torch.no_grad():
                return self.logits(graph, edge_weight).cpu()
        except ModelError as error:
            raise BrokenPropertyError(str(error), graph) from error

    def expected(self, graph: Data) -> Tensor:
        """Return the answer to compare others with; a graph without an answer is drawn anew.

        Only the properties on sizes and shapes report graphs without an answer.
        """
        try:
            return self.answer(graph)
        except BrokenPropertyError:
            reject()


def check_same(actual: Tensor, expected: Tensor, graph: Data, what: str) -> None:
    """Check that two answers [rows, c] are the same up to rounding.

    Raises:
        BrokenPropertyError: with the largest difference, its row, and what is allowed.
    """
    if actual.shape != expected.shape:
        raise BrokenPropertyError(
            f"{what}: the shape is {[*actual.shape]} and not {[*expected.shape]}", graph
        )
    if not expected.numel():
        return
    precision = max(torch.finfo(answer.dtype).eps for answer in (actual, expected))
    actual, expected = actual.double(), expected.double()
    allowed = ROUNDING * precision * max(1.0, float(expected.abs().max()))
    differences = (actual - expected).abs().amax(dim=1)
    largest, row = float(differences.max()), int(differences.argmax())
    if largest > allowed:
        raise BrokenPropertyError(
            f"{what}: row {row} of the logits differs by {largest:.3g}, and rounding explains at "
            f"most {allowed:.1g}",
            graph,
        )


def with_edges(graph: Data, edge_index: Tensor) -> Data:
    """Return the graph with other edges [2, e]."""
    return Data(x=graph.x, edge_index=edge_index)
