"""The harness's own models of one dataset: surrogates and references."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cached_property
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch_geometric.data import Data

from grb_check.attacks.graph_sets.injected_graphs import model_on
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.datasets.views import AnyDataset
from grb_check.errors import DataError
from grb_check.evaluation.surrogates import from_arrays, recipe, surrogate, to_arrays
from grb_check.gradients.victim import Victim
from grb_check.store.pack import Pack
from grb_check.store.store import Store
from grb_check.user_code.randomness import derive_seed, isolated_randomness


class Unseen(Exception):
    """Part of a module cannot be read; the message says why."""


def tensors_of(module: nn.Module) -> dict[str, Tensor]:
    """All parameters and buffers by name, each once, including those outside the state dict.

    Raises:
        Unseen: one is lazy, sparse, quantised or expanded.
    """
    named = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    for name, tensor in named.items():
        if is_lazy(tensor) or tensor.layout != torch.strided or tensor.is_quantized:
            raise Unseen(f"{name} is not a plain tensor")
        shared = zip(tensor.shape, tensor.stride(), strict=True)
        if any(size > 1 and step == 0 for size, step in shared):
            raise Unseen(f"{name} is an expanded tensor")
    return named


def bytes_of(tensor: Tensor) -> bytes:
    """The values of a tensor of any type, in row-major order.

    Raises:
        Unseen: it has no values, or they are not in plain memory.
    """
    try:
        plain = tensor.detach().cpu().resolve_conj().resolve_neg()
        real = torch.view_as_real(plain) if plain.is_complex() else plain
        return real.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    except (RuntimeError, TypeError) as error:
        raise Unseen(str(error)) from error


def digest_of(tensors: Mapping[str, Tensor]) -> str:
    """Hex digest of names, types, shapes and values.

    Raises:
        Unseen: see `bytes_of`.
    """
    sha = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        sha.update(f"{name!r} {tensor.dtype} {list(tensor.shape)}".encode())
        sha.update(bytes_of(tensor))
    return sha.hexdigest()


REFERENCE_TRAININGS: Final = 5


class TrainedModel:
    """A trained, frozen model and what is known about it.

    Attributes:
        victim: the model, ready to be attacked.
        predicted: its classes on the clean graph, int64 [num_nodes] or [num_graphs], on the CPU.
        warnings: given while it was built and trained.
        uncalled: a copy that has not been called since the training; None if it cannot be copied.
        pretrained: whether nothing was trained for it: it was declared so, or has no parameters.
        missing_gradients: share of sampled targets without a gradient, and an error, by what the
            gradient is taken of; `white_box` measures it once for each model and keeps it here.
    """

    def __init__(
        self,
        victim: Victim,
        predicted: Tensor,
        warnings: tuple[str, ...] = (),
        uncalled: Victim | None = None,
        *,
        pretrained: bool = False,
    ) -> None:
        self.victim = victim
        self.predicted = predicted
        self.warnings = warnings
        self.uncalled = uncalled
        self.pretrained = pretrained
        self.missing_gradients: dict[str, tuple[float | None, str]] = {}

    @cached_property
    def weights(self) -> str:
        """Digest of all parameters and buffers; empty if one is sparse or lazy."""
        try:
            return digest_of(tensors_of(self.victim.module))[:16]
        except Unseen:
            return ""


class OwnModels:
    """Surrogates and references of one dataset, each trained once or read from the store.

    Args:
        dataset: on the device.
        fingerprint: of the dataset.
        store: where trained models are kept between runs.
        device: where they are trained.
        pack: that black-box perturbations are taken from; None to make them.

    Attributes:
        trainings: of each reference.
    """

    def __init__(
        self,
        dataset: AnyDataset,
        fingerprint: str,
        store: Store,
        device: torch.device,
        pack: Pack | None = None,
    ) -> None:
        self.dataset = dataset
        self.fingerprint = fingerprint
        self.store = store
        self.device = device
        self.pack = pack
        self.trainings = REFERENCE_TRAININGS
        self._trained: dict[tuple[str, int], TrainedModel] = {}

    def surrogate(self, kind: str) -> TrainedModel:
        """The surrogate of a kind: one for all repeats, as in GRB."""
        return self._get(kind, surrogate_seed())

    def reference(self, kind: str, repeat: int) -> TrainedModel:
        """A model that the gate compares with in this repeat; never the surrogate.

        It is trained `trainings` times, which further repeats use again: that is enough
        to know what an undefended model loses, and a baseline of 20 repeats needs no 60 trainings.
        """
        return self._get(kind, derive_seed("reference", repeat % self.trainings))

    def recipe(self, kind: str) -> str:
        """Return all that determines a model besides dataset and seed, rounding included."""
        threads = torch.get_num_threads()
        return (
            f"{self.definition(kind)}, torch {torch.__version__}, {self.device.type}, {threads} "
            f"threads"
        )

    def definition(self, kind: str) -> str:
        """Return the same without what only changes the rounding."""
        return recipe(self.dataset, kind)

    def _get(self, kind: str, seed: int) -> TrainedModel:
        if (kind, seed) not in self._trained:
            key = self.store.key(
                kind=kind, dataset=self.fingerprint, recipe=self.recipe(kind), seed=seed
            )
            with self.store.lock(key):
                model = self._stored(key, kind)
                if model is None:
                    model = surrogate(self.dataset, kind=kind, seed=seed, device=self.device)
                    self.store.save_arrays(key, to_arrays(model))
            predicted = predict(model, self.dataset.graph, seed)
            self._trained[kind, seed] = TrainedModel(model, predicted)
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
    """Predicted classes int64 [num_nodes] or [num_graphs], on the CPU.

    Args:
        model: of nodes or of graphs.
        graph: clean, or attacked by `threat.apply`.
        seed: of the global random states during the call, for models that draw in their forward.
    """
    with isolated_randomness(seed), torch.no_grad():
        return model_on(model, graph)(graph.x, graph.edge_index).argmax(dim=1).cpu()
