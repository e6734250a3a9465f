"""The harness's own models of one dataset: trained once, kept in memory and in the store."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.protocol import DifferentiableModel
from grb_check.datasets.views import AnyDataset
from grb_check.errors import DataError
from grb_check.evaluation.store import Store
from grb_check.evaluation.surrogates import from_arrays, recipe, surrogate, to_arrays
from grb_check.evaluation.visible_state import Unseen, digest_of, tensors_of
from grb_check.gradients.victim import Victim
from grb_check.user_code.randomness import derive_seed, isolated_randomness


@dataclass(frozen=True)
class Ready:
    """A victim, what it predicts on the clean graph, and what building it warned of.

    Attributes:
        victim: to attack.
        predicted: int64 [num_nodes], or [num_graphs].
        warnings: of building it.
        fresh: a copy that has not been called since; None where there is none.
        gradients: what diagnostics found out about it, kept for its other cases.
    """

    victim: Victim
    predicted: Tensor
    warnings: tuple[str, ...] = ()
    fresh: Victim | None = field(default=None, repr=False)
    gradients: dict[str, float | None] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def weights(self) -> str:
        """Digest of its parameters and buffers, those outside of the state dict too.

        Empty where one of them, as a sparse one, is not in plain memory.
        """
        try:
            return digest_of(tensors_of(self.victim.module))[:16]
        except Unseen:
            return ""


@dataclass(frozen=True)
class OwnModels:
    """Surrogates and reference GCNs.

    Attributes:
        dataset: on the device.
        fingerprint: of the dataset.
        store: where they are kept.
        device: where they are trained.
    """

    dataset: AnyDataset
    fingerprint: str
    store: Store
    device: torch.device
    _trained: dict[tuple[str, int], Ready] = field(default_factory=dict, init=False, repr=False)

    def surrogate(self, kind: str) -> Ready:
        """The surrogate of a kind: one for all repeats, as in GRB."""
        return self._get(kind, surrogate_seed())

    def reference(self, repeat: int) -> Ready:
        """The GCN that the gate compares with in this repeat; never the surrogate."""
        return self._get("gcn", derive_seed("reference", repeat))

    def recipe(self, kind: str) -> str:
        """What determines a model beside dataset and seed, rounding included."""
        threads = torch.get_num_threads()
        return f"{recipe(self.dataset, kind)}, {self.device.type}, {threads} threads"

    def _get(self, kind: str, seed: int) -> Ready:
        if (kind, seed) not in self._trained:
            key = self.store.key(
                kind=kind, dataset=self.fingerprint, recipe=self.recipe(kind), seed=seed
            )
            with self.store.lock(key):
                model = self._stored(key, kind)
                if model is None:
                    model = surrogate(self.dataset, kind=kind, seed=seed, device=self.device)
                    self.store.save_arrays(key, to_arrays(model))
            self._trained[kind, seed] = Ready(model, predict(model, self.dataset.graph, seed))
        return self._trained[kind, seed]

    def _stored(self, key: str, kind: str) -> Victim | None:
        arrays = self.store.load_arrays(key)
        if arrays is None:
            return None
        try:
            return from_arrays(self.dataset, kind, arrays, self.device)
        except DataError as error:
            self.store.discard(key, str(error))
            return None


def surrogate_seed() -> int:
    """The seed of every surrogate."""
    return derive_seed("surrogate", 0)


def predict(model: DifferentiableModel, graph: Data, seed: int) -> Tensor:
    """Predicted classes int64 [num_nodes], or [num_graphs], on the CPU; the same seed gives the
    same."""
    with isolated_randomness(seed), torch.no_grad():
        return model(graph.x, graph.edge_index).argmax(dim=1).cpu()
