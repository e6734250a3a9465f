"""Victims of one dataset: built, checked, trained and frozen once for each model and seed.

Everything that is worth keeping between cases, in one place.

An evaluator holds one `DatasetCache` for each of the datasets used last. Nothing else in this
package remembers an earlier case, and no result depends on what is kept here: only time does.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

import torch
from torch import nn

from grb_check import datasets
from grb_check.datasets import Source
from grb_check.datasets.dataset import Dataset
from grb_check.datasets.places import FEATURE_RULES
from grb_check.datasets.views import AnyDataset
from grb_check.errors import ModelError
from grb_check.evaluation.own_models import OwnModels, TrainedModel, predict
from grb_check.gradients.victim import Victim
from grb_check.store.pack import Pack
from grb_check.store.store import Store
from grb_check.training.building import build_victim, check_built
from grb_check.user_code.randomness import isolated_randomness
from grb_check.victims.subject import Subject
from grb_check.victims.wrappers import Encoder, SelfTrained, Trained, module_of

DEVIATIONS: Final = 3  # of McNemar's statistic, so that luck alone says so once in 700 models


def check_scale(model: TrainedModel, dataset: AnyDataset, source: datasets.Source) -> None:
    """Check that a finished model is not better on features that are scaled in another way.

    Such a model seems robust: it is nearly blind to the features, and so to those of an attacker.
    Answers for the test nodes are compared by McNemar's test (Psychometrika 12, 1947).

    Args:
        model: with its answers on the dataset.
        dataset: on the device.
        source: that the dataset was read from; nothing is checked if it says how to scale.

    Raises:
        ModelError: it is; says how the features have to be scaled.
    """
    if source.places.features is not None or not isinstance(dataset, Dataset):
        return
    nodes = dataset.test["full"].cpu()
    truth = dataset.graph.y.cpu()[nodes]
    right = {dataset.features: model.predicted[nodes] == truth}
    for rule in FEATURE_RULES:
        if rule != dataset.features:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # they were shown when it was first read
                places = replace(source.places, features=rule)
                other = datasets.load(replace(source, places=places))
            graph = other.graph.to(dataset.graph.x.device)
            if not graph.y.equal(dataset.graph.y):
                continue  # a function that draws its graph anew
            with suppress(ModelError):  # which may not take such features at all
                right[rule] = predict(model.victim, graph, 0)[nodes] == truth
    best = max(right, key=lambda rule: int(right[rule].sum()))
    there, here = right[best], right[dataset.features]
    gained, lost = int((there & ~here).sum()), int((here & ~there).sum())
    if gained - lost > DEVIATIONS * (gained + lost) ** 0.5:
        raise ModelError(
            f"model {model.victim.name} is finished, and right for {there.float().mean():.1%} of "
            f"the test nodes with --grb-features={best}, but for {here.float().mean():.1%} with "
            f"{dataset.features}, the default for {dataset.name}: it was trained on other "
            f"features; give --grb-features={best}, or --grb-features={dataset.features} if this "
            f"is meant"
        )


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
                )
                uncalled = _copy(victim, seed)
                predicted = predict(victim, self._dataset.graph, seed)
                pretrained = _trained_already(built) or _untrainable(built)
                made = TrainedModel(
                    victim, predicted, our_warnings(caught), uncalled, pretrained=pretrained
                )
                if isinstance(built, Trained):
                    check_scale(made, self._dataset, self._source)
                self._victims[key] = made
            except ModelError as error:
                self._victims[key] = error
        if not isinstance(self._built.get(key), Trained):
            self._built.pop(key, None)
        for warning in caught:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )


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


class DatasetCache:
    """Results that the cases of one dataset share.

    Attributes:
        own: surrogates and reference GCNs; it holds the dataset itself, its fingerprint, the store
            and the device.
        victims: trained models under test.
        notices: warnings given while the dataset was loaded.
    """

    def __init__(
        self, own: OwnModels, source: datasets.Source, notices: tuple[str, ...] = ()
    ) -> None:
        self.own = own
        self.victims = TrainedVictims(own.dataset, source, own.device)
        self.notices = notices


def load_cache(
    source: datasets.Source, store: Store, device: torch.device, pack: Pack | None = None
) -> DatasetCache:
    """Load a dataset onto the device, with an empty cache.

    Raises:
        DataError, UsageError: see `datasets.load`.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dataset = datasets.load_either(source)
    on_device = replace(dataset, graph=dataset.graph.to(device))
    own = OwnModels(on_device, dataset.fingerprint(), store, device, pack)
    return DatasetCache(own, source, our_warnings(caught))
