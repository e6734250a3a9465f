"""Attack a model and measure it: model + case -> Outcome. Knows no pytest."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check import datasets
from grb_check.attacks import describe, load_attack
from grb_check.attacks.budgets import threat_for
from grb_check.attacks.protocol import Attack
from grb_check.attacks.threat import Perturbation, Threat, apply, verify
from grb_check.cases import (
    DIFFICULTIES,
    SCENARIOS,
    Case,
    check_repeats,
    choose,
    select_attacks,
)
from grb_check.datasets.dataset import Dataset, digest
from grb_check.datasets.places import SPLIT_RULES
from grb_check.devices import resolve_device, threads_for
from grb_check.errors import BudgetError, DataError, ModelError, UsageError
from grb_check.outcomes import Outcome, Repeat, Scores
from grb_check.randomness import derive_seed, isolated_randomness
from grb_check.store import Store
from grb_check.subjects import Model, Subject, as_subject
from grb_check.surrogates import from_arrays, recipe, surrogate, to_arrays
from grb_check.victims import Trained, Victim, build_victim, module_of

Progress: TypeAlias = Callable[[str], AbstractContextManager[None]]

SURROGATE = ("surrogate", 0)  # one for all repeats, as in GRB
ARENAS_KEPT = 2  # datasets held in memory with what was trained on them


def evaluate(
    model: Model,
    *,
    dataset: str | Path = "synthetic-cora",
    difficulty: str = "full",
    attack: str = "injection/pgd",
    repeats: int = 3,
    model_args: Mapping[str, object] | None = None,
    data: Path | str | Sequence[Path | str] = (),
    download: bool = False,
    split: str = "grb",
    store: Path | str | None = None,
    device: str = "auto",
) -> Outcome:
    """Attack a model in one case, without pytest.

    >>> import grb_check
    >>> grb_check.evaluate("mypkg:build", difficulty="easy").drop  # doctest: +SKIP
    0.41

    Args:
        model: `pkg.module:attr`, a factory, `Trained(module)` or `Encoder(module)`.
        dataset: as for `--grb-dataset`: a known name, a path, `pyg:CLASS/NAME`, or
            `pkg.module:function`.
        difficulty: easy, medium, hard or full.
        attack: `scenario/name`, or a name that only one scenario has.
        repeats: each with its own training and attack seed.
        model_args: keyword arguments for the factory.
        data: folders that hold datasets.
        download: whether a dataset that is in none of them may be downloaded.
        split: `grb`, or `given` for the one that the dataset brings along.
        store: folder of perturbations to reuse; None keeps nothing.
        device: a torch device, or auto.

    Raises:
        UsageError, DataError, ModelError: see `grb_check.errors`.
    """
    choose("difficulty", difficulty, DIFFICULTIES)
    pairs = select_attacks([attack], SCENARIOS)
    if len(pairs) > 1:
        raise UsageError(
            f"attack {attack!r} is ambiguous; give one of "
            f"{', '.join('/'.join(pair) for pair in pairs)}"
        )
    check_repeats("repeats", repeats)
    folders = [data] if isinstance(data, (str, Path)) else data
    places = datasets.Places(
        folders=tuple(Path(folder) for folder in folders),
        download=download,
        split=choose("split", split, SPLIT_RULES),
    )
    source = datasets.find(str(dataset), places)
    evaluator = Evaluator(store=Store(None if store is None else Path(store)), device=device)
    case = Case(source.name, difficulty, *pairs[0])
    return evaluator.outcome(as_subject(model, model_args), source, case, repeats)


@dataclass(frozen=True)
class _Ready:
    """A victim, what it predicts on the clean graph, and what building it warned of."""

    victim: Victim
    predicted: Tensor  # int64 [num_nodes]
    warnings: tuple[str, ...] = ()


@dataclass
class _Arena:
    """One dataset on the device, with the models trained on it so far."""

    dataset: Dataset
    fingerprint: str
    notices: tuple[str, ...] = ()
    built: dict[tuple[object, int], object] = field(default_factory=dict)  # not yet victims
    modules: list[object] = field(default_factory=list)  # that factories have made
    victims: dict[tuple[object, int], _Ready | ModelError] = field(default_factory=dict)
    gcns: dict[int, _Ready] = field(default_factory=dict)


class Evaluator:
    """Evaluates cases and keeps what they share: datasets, trained victims, the reference.

    Args:
        store: of perturbations and of the harness's own models.
        device: a torch device, or auto.
        progress: called with what begins; the context it returns ends with it.
    """

    def __init__(self, *, store: Store, device: str, progress: Progress | None = None) -> None:
        self.store = store
        self.device = resolve_device(device)
        self._progress = progress or _silent
        self._arenas: dict[datasets.Source, _Arena] = {}

    def check(self, subject: Subject, source: datasets.Source) -> None:
        """Load the dataset and build the untrained model once, so that errors come early.

        Raises:
            DataError, ModelError, UsageError: the data or the factory is at fault.
        """
        arena = self._arena(source)
        with threads_for(arena.dataset.num_nodes):
            self._build(subject, arena, 0)

    def outcome(
        self, subject: Subject, source: datasets.Source, case: Case, repeats: int
    ) -> Outcome:
        """Run one case.

        Raises:
            ModelError: the model cannot be trained or called, or answers nonsense.
            BudgetError: an attack did more than its threat allows.
        """
        arena = self._arena(source)
        attack = load_attack(case.scenario, case.attack)
        threat = threat_for(arena.dataset, case.difficulty, attack.scenario)
        with threads_for(arena.dataset.num_nodes):
            done = [
                self._repeat(subject, arena, case, attack, threat, seed, f"{seed + 1}/{repeats}")
                for seed in range(repeats)
            ]
        messages = [*arena.notices, *(text for _, texts in done for text in texts)]
        return Outcome(
            case=case,
            model=subject.name,
            targets=int(threat.targets.numel()),
            dataset=arena.fingerprint,
            origin=arena.dataset.origin,
            repeats=tuple(each for each, _ in done),
            warnings=tuple(dict.fromkeys(messages)),
        )

    def _repeat(
        self,
        subject: Subject,
        arena: _Arena,
        case: Case,
        attack: Attack,
        threat: Threat,
        seed: int,
        label: str,
    ) -> tuple[Repeat, tuple[str, ...]]:
        start = time.perf_counter()
        with self._progress(f"{case.id}: repeat {label}, training {subject.name}"):
            ready = self._victim(subject, arena, seed)
        trained = time.perf_counter()
        with self._progress(f"{case.id}: repeat {label}, attacking"):
            perturbation, from_store = self._perturbation(arena, attack, threat, case, seed)
            attacked = apply(arena.dataset.graph, perturbation)
            victim = _scores(arena, ready, attacked, threat, seed)
            reference = self._reference(arena, perturbation, attacked, threat, seed)
        repeat = Repeat(
            seed=seed,
            victim=victim,
            reference=reference,
            spent=_spent(perturbation),
            from_store=from_store,
            seconds=time.perf_counter() - start,
            training_seconds=trained - start,
            notes=perturbation.notes,
        )
        return repeat, ready.warnings

    def _arena(self, source: datasets.Source) -> _Arena:
        arena = self._arenas.pop(source, None)
        if arena is None:
            with self._progress(f"loading {source.name}"):
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    dataset = datasets.load(source)
                on_device = replace(dataset, graph=dataset.graph.to(self.device))
                arena = _Arena(on_device, dataset.fingerprint(), _ours(caught))
        while len(self._arenas) >= ARENAS_KEPT:
            self._arenas.pop(next(iter(self._arenas)))
        self._arenas[source] = arena  # last = most recently used
        return arena

    def _build(self, subject: Subject, arena: _Arena, seed: int) -> object:
        """What the factory returns for this seed, called once; it is taken away when trained."""
        key = (subject.key, seed)
        if key not in arena.built:
            built = subject.build(arena.dataset, seed, self.device)
            if not (subject.finished or isinstance(built, Trained)):
                module = module_of(built)
                if any(module is other for other in arena.modules):
                    raise ModelError(
                        f"model {subject.name}: the factory returned the same module for another "
                        f"seed; make a new one in every call, or return grb_check.Trained(module)"
                    )
                arena.modules.append(module)
            arena.built[key] = built
        return arena.built[key]

    def _victim(self, subject: Subject, arena: _Arena, seed: int) -> _Ready:
        if subject.finished or isinstance(arena.built.get((subject.key, 0)), Trained):
            seed = 0  # what is finished does not change with the seed
        key = (subject.key, seed)
        if key not in arena.victims:
            self._prepare(subject, arena, seed)
        ready = arena.victims[key]
        if isinstance(ready, ModelError):
            raise ModelError(str(ready))
        return ready

    def _prepare(self, subject: Subject, arena: _Arena, seed: int) -> None:
        """Train a victim, or remember why it cannot be: no case sees it half trained."""
        key = (subject.key, seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                built = self._build(subject, arena, seed)
                victim = build_victim(
                    built, arena.dataset, name=subject.name, seed=seed, device=self.device
                )
                predicted = _predict(victim, arena.dataset.graph, seed)
                arena.victims[key] = _Ready(victim, predicted, _ours(caught))
            except ModelError as error:
                arena.victims[key] = error
        if not isinstance(arena.built.get(key), Trained):
            arena.built.pop(key, None)
        for warning in caught:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )

    def _gcn(self, arena: _Arena, role: str, number: int) -> _Ready:
        """A GCN trained by the harness: the surrogate, or the reference of one repeat."""
        seed = derive_seed(role, number)
        if seed not in arena.gcns:
            key = self.store.key(
                kind="gcn", dataset=arena.fingerprint, recipe=self._recipe(arena), seed=seed
            )
            with self.store.lock(key):
                gcn = self._stored_gcn(key, arena)
                if gcn is None:
                    gcn = surrogate(arena.dataset, seed=seed, device=self.device)
                    self.store.save_arrays(key, to_arrays(gcn))
            arena.gcns[seed] = _Ready(gcn, _predict(gcn, arena.dataset.graph, seed))
        return arena.gcns[seed]

    def _recipe(self, arena: _Arena) -> str:
        """What determines the harness's GCNs, rounding included."""
        threads = torch.get_num_threads()
        return f"{recipe(arena.dataset)}, {self.device.type}, {threads} threads"

    def _stored_gcn(self, key: str, arena: _Arena) -> Victim | None:
        arrays = self.store.load_arrays(key)
        if arrays is None:
            return None
        try:
            return from_arrays(arena.dataset, arrays, self.device)
        except DataError as error:
            self.store.discard(key, str(error))
            return None

    def _perturbation(
        self, arena: _Arena, attack: Attack, threat: Threat, case: Case, seed: int
    ) -> tuple[Perturbation, bool]:
        """The verified perturbation, and whether the store had it."""
        key = self.store.key(
            kind="perturbation",
            dataset=arena.fingerprint,
            surrogate=self._recipe(arena),
            surrogate_seed=derive_seed(*SURROGATE),
            attack=describe(attack),
            threat=_describe_threat(threat),
            difficulty=case.difficulty,
            seed=seed,
        )
        with self.store.lock(key):
            stored = self.store.load_perturbation(key)
            if stored is not None:
                try:
                    verify(stored, arena.dataset.graph, threat)
                    return stored, True
                except BudgetError as error:
                    self.store.discard(key, str(error))
            perturbation = self._attack(arena, attack, threat, case, seed)
            self.store.save_perturbation(key, perturbation)
        return perturbation, False

    def _attack(
        self, arena: _Arena, attack: Attack, threat: Threat, case: Case, seed: int
    ) -> Perturbation:
        assert attack.knowledge == "black-box", "only the surrogate is given to attacks so far"
        ready = self._gcn(arena, *SURROGATE)
        dataset = arena.dataset
        known = dataset.graph.clone()
        labelled = torch.cat([dataset.train, dataset.val]).to(known.y.device)
        known.y = ready.predicted.clone().to(known.y.device)
        known.y[labelled] = dataset.graph.y[labelled]
        generator = torch.Generator().manual_seed(derive_seed("attack", case.cell, seed))
        on_device = replace(threat, targets=threat.targets.to(self.device))
        perturbation = attack.perturb(known, on_device, ready.victim, generator)
        verify(perturbation, dataset.graph, threat)
        return perturbation

    def _reference(
        self,
        arena: _Arena,
        perturbation: Perturbation,
        attacked: Data,
        threat: Threat,
        seed: int,
    ) -> Scores:
        """How the reference GCN of this repeat fares; kept beside the perturbation."""
        key = self.store.key(
            kind="reference",
            dataset=arena.fingerprint,
            recipe=self._recipe(arena),
            perturbation=digest([*perturbation.tensors(), threat.targets]),
            seed=seed,
        )
        arrays = self.store.load_arrays(key)
        count = int(threat.targets.numel())
        if arrays is not None and arrays["right"].shape == (2, count):
            return _from_bits(*arrays["right"])
        ready = self._gcn(arena, "reference", seed)
        before, after = _right(arena, ready, attacked, threat, seed)
        self.store.save_arrays(key, {"right": np.stack([before, after])})
        return _from_bits(before, after)


def _predict(victim: Victim, graph: Data, seed: int) -> Tensor:
    """Predicted classes int64 [num_nodes], on the CPU; the same seed gives the same."""
    with isolated_randomness(seed), torch.no_grad():
        return victim(graph.x, graph.edge_index).argmax(dim=1).cpu()


def _right(
    arena: _Arena, ready: _Ready, attacked: Data, threat: Threat, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Which targets were right before and after: bool [t] each."""
    targets = threat.targets.cpu()
    truth = arena.dataset.graph.y.cpu()[targets]
    after = _predict(ready.victim, attacked, seed)
    return (
        (ready.predicted[targets] == truth).numpy(),
        (after[targets] == truth).numpy(),
    )


def _scores(arena: _Arena, ready: _Ready, attacked: Data, threat: Threat, seed: int) -> Scores:
    return _from_bits(*_right(arena, ready, attacked, threat, seed))


def _from_bits(before: np.ndarray, after: np.ndarray) -> Scores:
    return Scores(
        clean=float(before.mean()),
        attacked=float(after.mean()),
        right_before=np.packbits(before).tobytes(),
        right_after=np.packbits(after).tobytes(),
    )


def _ours(caught: Sequence[warnings.WarningMessage]) -> tuple[str, ...]:
    """Texts of the warnings of grb_check among them, each once."""
    texts = [str(w.message) for w in caught if w.category.__module__.startswith("grb_check")]
    return tuple(dict.fromkeys(texts))


def _spent(perturbation: Perturbation) -> dict[str, int]:
    return {
        "added_edges": perturbation.added_edges.shape[1],
        "removed_edges": perturbation.removed_edges.shape[1],
        "injected_nodes": perturbation.injected_x.shape[0],
        "injected_edges": perturbation.injected_edges.shape[1],
        "modified_nodes": perturbation.modified_nodes.shape[0],
    }


def _describe_threat(threat: Threat) -> str:
    """Everything of the threat but the targets, which follow from dataset and difficulty."""
    return repr(
        (
            threat.scenario,
            threat.edge_budget,
            threat.injected_nodes,
            threat.edges_per_injected_node,
            threat.feature_range,
            threat.modified_nodes,
        )
    )


def _silent(_: str) -> AbstractContextManager[None]:
    return nullcontext()
