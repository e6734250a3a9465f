"""Victims of one dataset: built, checked, trained and frozen once for each model and seed."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from functools import partial

import torch
from torch import nn

from grb_check.datasets import Source
from grb_check.datasets.graph_dataset import AnyDataset
from grb_check.errors import ModelError
from grb_check.evaluation.feature_scale import check_scale
from grb_check.evaluation.identity import check_identity
from grb_check.evaluation.logit_units import in_logit_units
from grb_check.evaluation.thresholds import at_threshold
from grb_check.evaluation.trained_model import TrainedModel, predict
from grb_check.evaluation.two_way_edges import warn_of_better_edges
from grb_check.evaluation.unseen_targets import check_unseen
from grb_check.gradients.victim import Victim
from grb_check.training.building import adjacency_is_open, build_victim, check_built
from grb_check.user_code.randomness import isolated_randomness
from grb_check.victims.adjacency import AdjacencyRule
from grb_check.victims.subject import Subject
from grb_check.victims.wrappers import Encoder, SelfTrained, Trained, module_of


class TrainedVictims:
    """The victims of one dataset, by model and seed.

    A training that fails is not tried again: every case of that model and seed gets the same error.

    Args:
        dataset: on the device.
        source: that it was read from.
        device: where victims are trained.
    """

    def __init__(self, dataset: AnyDataset, source: Source, device: torch.device) -> None:
        self._dataset = dataset
        self._source = source
        self._device = device
        self._built: dict[tuple[object, int], object] = {}  # not trained yet
        self._modules: list[object] = []  # made by factories, kept so that no id is used twice
        self._victims: dict[tuple[object, int], TrainedModel | ModelError] = {}
        self._adjacencies: dict[object, AdjacencyRule] = {}  # chosen for models of `(x, adj)`

    def build(self, subject: Subject, seed: int) -> object:
        """Return what the factory makes for this seed; it is called once.

        Raises:
            ModelError: the factory failed, or returned something that cannot be used, or the
                module of another seed.
        """
        key = (subject.key, seed)
        if key not in self._built:
            built = subject.build(self._dataset, seed, self._device)
            check_built(built, self._dataset, subject.name)
            if not (subject.finished or _trained_already(built)):
                module = module_of(built)
                if any(module is other for other in self._modules):
                    raise ModelError(
                        f"model {subject.name}: the factory returned the same module for another "
                        f"seed; make a new one in every call, or return grb_check.Trained(module)"
                    )
                self._modules.append(module)
            self._built[key] = built
        return self._built[key]

    def get(self, subject: Subject, seed: int) -> TrainedModel:
        """Return the victim of a repeat, trained at its first use.

        Raises:
            ModelError: it cannot be built, trained or called.
        """
        if subject.finished or isinstance(self._built.get((subject.key, 0)), Trained):
            seed = 0  # a finished model is the same for every seed
        if (subject.key, seed) not in self._victims:
            self._train(subject, seed)
        victim = self._victims[subject.key, seed]
        if isinstance(victim, ModelError):
            raise ModelError(str(victim)) from victim
        return victim

    def _train(self, subject: Subject, seed: int) -> None:
        """Train a victim, or keep the reason why it cannot be trained."""
        key = (subject.key, seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                built = self.build(subject, seed)
                victim = build_victim(
                    built,
                    self._dataset,
                    name=subject.name,
                    seed=seed,
                    device=self._device,
                    adj=self._adjacency(subject, built, seed),
                )
                adj = victim.adapter.convention.adj
                if isinstance(adj, str):
                    self._adjacencies[subject.key] = adj
                uncalled = _copy(victim, seed)
                predicted = predict(victim, self._dataset.graph, seed)
                victim = in_logit_units(victim, self._dataset.graph, seed)
                pretrained = _trained_already(built) or _untrainable(built)
                trains = not (pretrained or subject.finished)  # one module alone has one training
                created = TrainedModel(
                    victim,
                    predicted,
                    uncalled=uncalled,
                    pretrained=pretrained,
                    train=partial(self._retrained, subject, seed) if trains else None,
                )
                if isinstance(built, Trained):
                    check_unseen(created, self._dataset)
                if isinstance(built, (Trained, SelfTrained, Encoder)):
                    check_identity(created, self._dataset, seed)
                if isinstance(built, Trained):
                    check_scale(created, self._dataset, self._source)
                    warn_of_better_edges(created, self._dataset)
                created.warnings = our_warnings(caught)
                self._victims[key] = at_threshold(created, self._dataset, seed)
            except ModelError as error:
                self._victims[key] = error
        if not isinstance(self._built.get(key), Trained):
            self._built.pop(key, None)
        for warning in caught:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )

    def _adjacency(self, subject: Subject, built: object, seed: int) -> AdjacencyRule | None:
        """The rule for the argument `adj` that the first repeat has chosen, if one is to be."""
        if subject.key not in self._adjacencies and seed and adjacency_is_open(built, subject.name):
            self.get(subject, 0)
        return self._adjacencies.get(subject.key)

    def _retrained(self, subject: Subject, seed: int, dataset: AnyDataset) -> TrainedModel:
        victims = TrainedVictims(dataset, self._source, self._device)
        victims._adjacencies = self._adjacencies
        victims._modules = list(self._modules)  # whose ids are compared; its own one can go
        return victims.get(subject, seed)


def our_warnings(caught: Sequence[warnings.WarningMessage]) -> tuple[str, ...]:
    """Texts of the warnings of grb_check among those caught, each once."""
    texts = [str(w.message) for w in caught if w.category.__module__.startswith("grb_check")]
    return tuple(dict.fromkeys(texts))


def _trained_already(built: object) -> bool:
    """Whether one module may serve several repeats: it is not trained, and used as a copy."""
    return isinstance(built, Trained) or (isinstance(built, Encoder) and built.pretrain is None)


def _untrainable(built: object) -> bool:
    """Whether a module has neither parameters nor a training of its own."""
    module = module_of(built)
    if isinstance(built, SelfTrained) or not isinstance(module, nn.Module):
        return False
    return not hasattr(module, "fit") and next(module.parameters(), None) is None


def _copy(victim: Victim, seed: int) -> Victim | None:
    try:
        with isolated_randomness(seed):  # layers of PyG 2.5 draw weights to be copied over
            return copy.deepcopy(victim)
    except Exception:  # whatever a user's attribute raises; the checks have warned of it
        return None
