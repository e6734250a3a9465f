"""The harness's own models of one dataset: surrogates and references.

Victims of one dataset: built, checked, trained and frozen once for each model and seed.

Everything that is worth keeping between cases, in one place.

An evaluator holds one `DatasetCache` for each of the datasets used last. Nothing else in this
package remembers an earlier case, and no result depends on what is kept here: only time does.
"""

from __future__ import annotations

import copy
import hashlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch_geometric.data import Data

from grb_check import datasets
from grb_check.attacks.protocol import DifferentiableModel, model_on
from grb_check.attacks.threat import Perturbation
from grb_check.datasets import Source
from grb_check.datasets.dataset import AnyDataset, Dataset
from grb_check.datasets.source import FEATURE_RULES
from grb_check.errors import DataError, ModelError
from grb_check.evaluation.surrogates import from_arrays, recipe, surrogate, to_arrays
from grb_check.gradients.victim import Victim
from grb_check.store.pack import Pack
from grb_check.store.store import Store
from grb_check.training.building import build_victim, check_built
from grb_check.user_code.randomness import derive_seed, isolated_randomness
from grb_check.victims.subject import Subject
from grb_check.victims.wrappers import Encoder, SelfTrained, Trained, module_of


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
        train: trains the same model, from the same seed, on another dataset; None if `pretrained`,
            or if there is no factory that makes it again.
        missing_gradients: share of sampled targets without a gradient, and an error, by what the
            gradient is taken of; `white_box` measures it once for each model and keeps it here.
        blended: what `fallbacks.from_blends` found, if anything, by threat; the same for all
            attacks.
    """

    def __init__(
        self,
        victim: Victim,
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

    @cached_property
    def weights(self) -> str:
        """Digest of all parameters and buffers; empty if one is sparse or lazy."""
        try:
            return digest_of(tensors_of(self.victim.module))[:16]
        except Unseen:
            return ""


class HarnessModels:
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
            train = partial(self._retrained, kind, seed)
            self._trained[kind, seed] = TrainedModel(model, predicted, train=train)
        return self._trained[kind, seed]

    def _retrained(self, kind: str, seed: int, dataset: AnyDataset) -> TrainedModel:
        model = surrogate(dataset, kind=kind, seed=seed, device=self.device)
        return TrainedModel(model, predict(model, dataset.graph, seed))

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
    there, current = right[best], right[dataset.features]
    gained, lost = int((there & ~current).sum()), int((current & ~there).sum())
    if gained - lost > DEVIATIONS * (gained + lost) ** 0.5:
        raise ModelError(
            f"model {model.victim.name} is finished, and right for {there.float().mean():.1%} of "
            f"the test nodes with --grb-features={best}, but for {current.float().mean():.1%} with "
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
                trains = not (pretrained or subject.finished)  # one module alone has one training
                created = TrainedModel(
                    victim,
                    predicted,
                    our_warnings(caught),
                    uncalled,
                    pretrained=pretrained,
                    train=partial(self._retrained, subject, seed) if trains else None,
                )
                if isinstance(built, Trained):
                    check_scale(created, self._dataset, self._source)
                self._victims[key] = created
            except ModelError as error:
                self._victims[key] = error
        if not isinstance(self._built.get(key), Trained):
            self._built.pop(key, None)
        for warning in caught:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )

    def _retrained(self, subject: Subject, seed: int, dataset: AnyDataset) -> TrainedModel:
        victims = TrainedVictims(dataset, self._source, self._device)
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


class DatasetCache:
    """Results that the cases of one dataset share.

    Attributes:
        harness: surrogates and references; it holds the dataset itself, its fingerprint, the
            store and the device.
        victims: trained models under test.
        notices: warnings given while the dataset was loaded.
    """

    def __init__(
        self, harness_models: HarnessModels, source: datasets.Source, notices: tuple[str, ...] = ()
    ) -> None:
        self.harness = harness_models
        self.victims = TrainedVictims(harness_models.dataset, source, harness_models.device)
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
    harness_models = HarnessModels(on_device, dataset.fingerprint(), store, device, pack)
    return DatasetCache(harness_models, source, our_warnings(caught))
