"""The harness's models of one dataset: surrogates and references, each trained once."""

from __future__ import annotations

from functools import partial
from typing import Final

import torch
from torch import Tensor

from grb_check.attacks.threat import Threat
from grb_check.cases.target_weights import balanced_weights
from grb_check.datasets.graph_dataset import AnyDataset
from grb_check.datasets.metric_names import ACCURACY, BALANCED
from grb_check.errors import DataError
from grb_check.evaluation.surrogates import from_arrays, kinds_for, recipe, surrogate, to_arrays
from grb_check.evaluation.thresholds import at_threshold
from grb_check.evaluation.trained_model import TrainedModel, predict
from grb_check.gradients.rescaled import AnyVictim
from grb_check.store.pack import Pack
from grb_check.store.store import Store
from grb_check.user_code.randomness import derive_seed

REFERENCE_TRAININGS: Final = 5


class HarnessModels:
    """Surrogates and references of one dataset, each trained once or read from the store.

    Args:
        dataset: on the device.
        fingerprint: of the dataset.
        store: where trained models are kept between runs.
        device: where they are trained.
        metric: what figures are of.
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
        metric: str = ACCURACY,
        pack: Pack | None = None,
    ) -> None:
        self.dataset = dataset
        self.fingerprint = fingerprint
        self.store = store
        self.device = device
        self.metric = metric
        self.pack = pack
        self.trainings = REFERENCE_TRAININGS
        self._trained: dict[tuple[str, int], TrainedModel] = {}

    def classes(self, threat: Threat) -> Tensor:
        """True classes of the targets, int64 [t], on the CPU."""
        classes: Tensor = self.dataset.graph.y.cpu()
        return classes[threat.targets.cpu()]

    def target_weights(self, threat: Threat) -> bytes:
        """Weights of the targets, see `balanced_weights`; empty for accuracy."""
        balanced = self.metric == BALANCED
        return balanced_weights(self.classes(threat).tolist()) if balanced else b""

    def surrogate(self, kind: str) -> TrainedModel:
        """The surrogate of a kind: one for all repeats, as in GRB."""
        return self._get(kind, surrogate_seed())

    def surrogates_of(self, attack: object) -> list[TrainedModel]:
        """The surrogates that an attack is made on, see `kinds_for`."""
        return [self.surrogate(kind) for kind in kinds_for(attack)]

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
            train = partial(self._retrained, kind, seed)
            known = TrainedModel(model, predicted, train=train)
            self._trained[kind, seed] = at_threshold(known, self.dataset, seed)
        return self._trained[kind, seed]

    def _retrained(self, kind: str, seed: int, dataset: AnyDataset) -> TrainedModel:
        model = surrogate(dataset, kind=kind, seed=seed, device=self.device)
        return TrainedModel(model, predict(model, dataset.graph, seed))

    def _stored(self, key: str, kind: str) -> AnyVictim | None:
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
