"""A trained, frozen model with what is known about it, and its predictions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.protocol import DifferentiableModel, model_on
from grb_check.attacks.threat import Perturbation
from grb_check.datasets.graph_dataset import AnyDataset
from grb_check.evaluation.weights import Unseen, digest_of, tensors_of
from grb_check.gradients.rescaled import AnyVictim
from grb_check.gradients.victim import Victim
from grb_check.user_code.randomness import isolated_randomness


class TrainedModel:
    """A trained, frozen model and what is known about it.

    Attributes:
        victim: the model, ready to be attacked.
        predicted: its classes on the clean graph, int64 [num_nodes] or [num_graphs], on the CPU.
        warnings: given while it was built and trained.
        uncalled: a copy that has not been called since the training; None if it cannot be copied.
        pretrained: whether nothing was trained for it: it was declared so, or has no parameters.
        train: trains the same model, from the same seed, on another dataset; None if `pretrained`,
            or if there is no factory that makes it again.
        missing_gradients: share of sampled targets without a gradient, and an error, by what the
            gradient is taken of; `white_box` measures it once for each model and keeps it here.
        blended: what `fallbacks.from_blends` and `improved` found, if anything, by threat and
            starts; the same for all attacks.
        kept: what `fallbacks.kept` found, by threat, likewise.
        opened: the same model without what stops its gradients, see `open_gradients`; itself if
            there is nothing to leave out, None until that is known.
        new_types: int64 [num_nodes + 1], of new edges at each node and of all others, where these
            are not the commonest at their ends, see `edge_types`.
        of_types: the same model with such types, by their bytes.
    """

    def __init__(
        self,
        victim: AnyVictim,
        predicted: Tensor,
        warnings: tuple[str, ...] = (),
        uncalled: Victim | None = None,
        *,
        pretrained: bool = False,
        train: Callable[[AnyDataset], TrainedModel] | None = None,
    ) -> None:
        self.victim = victim
        self.predicted = predicted
        self.warnings = warnings
        self.uncalled = uncalled
        self.pretrained = pretrained
        self.train = train
        self.missing_gradients: dict[str, tuple[float | None, str]] = {}
        self.blended: dict[tuple[str, ...], Perturbation | None] = {}
        self.kept: dict[tuple[str, ...], list[Perturbation]] = {}
        self.opened: TrainedModel | None = None
        self.new_types: Tensor | None = None
        self.of_types: dict[bytes, TrainedModel] = {}
        self._faster: tuple[AnyVictim, AnyVictim] | None = None

    def for_searches(self, graph: Data) -> AnyVictim:
        """Return the model as attacks ask it, see `Victim.for_searches`.

        Args:
            graph: clean.
        """
        if self._faster is None or self._faster[0] is not self.victim:
            faster = self.victim
            if isinstance(faster, Victim) and "batch" not in graph:
                faster = faster.for_searches(graph.x, graph.edge_index)
            self._faster = self.victim, faster
        return self._faster[1]

    def digest(self, graph: Data, seed: int) -> str:
        """Hex digest of the weights and of the logits on the clean graph; empty without `weights`.

        Two models of the same code that have this in common are one model.

        Args:
            graph: clean.
            seed: see `predict`.
        """
        if not self.weights:
            return ""
        with isolated_randomness(seed), torch.no_grad():
            logits = model_on(self.victim, graph)(graph.x, graph.edge_index)
        return digest_of({f"logits of {self.weights}": logits})

    @cached_property
    def weights(self) -> str:
        """Digest of all parameters and buffers; empty if one is sparse or lazy."""
        try:
            return digest_of(tensors_of(self.victim.module))[:16]
        except Unseen:
            return ""


def predict(model: DifferentiableModel, graph: Data, seed: int) -> Tensor:
    """Predicted classes int64 [num_nodes] or [num_graphs], on the CPU.

    Args:
        model: of nodes or of graphs.
        graph: clean, or attacked by `threat.apply`.
        seed: of the global random states during the call, for models that draw in their forward.
    """
    with isolated_randomness(seed), torch.no_grad():
        return model_on(model, graph)(graph.x, graph.edge_index).argmax(dim=1).cpu()
