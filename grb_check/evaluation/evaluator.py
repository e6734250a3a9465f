"""Attack a model and measure it: model + case -> Outcome. Knows no pytest."""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from grb_check import datasets
from grb_check.attacks.budgets import settings_for, threat_for
from grb_check.attacks.names import WORST, base_name, split_budget, with_budget
from grb_check.attacks.protocol import Attack
from grb_check.attacks.registry import Pair, describe, load_attack
from grb_check.attacks.threat import Perturbation, Scenario, Threat
from grb_check.cases.attack_registry import Roster
from grb_check.cases.case import (
    DIFFICULTIES,
    Case,
    check_on_graphs,
    check_repeats,
    on_graphs,
)
from grb_check.cases.outcomes import Measurement, Outcome
from grb_check.cases.suites import worst_members
from grb_check.datasets.dataset import digest
from grb_check.datasets.graph_dataset import GraphDataset
from grb_check.datasets.places import FEATURE_RULES, SPLIT_RULES, TRAININGS
from grb_check.datasets.views import AnyDataset
from grb_check.errors import AttackError, choose
from grb_check.evaluation.arena import Arena, our_warnings
from grb_check.evaluation.before_and_after import Scene
from grb_check.evaluation.devices import resolve_device, threads_for
from grb_check.evaluation.own_models import OwnModels, Ready
from grb_check.evaluation.shared_victims import SharedVictims
from grb_check.evaluation.store import Store
from grb_check.evaluation.surrogates import check_kinds
from grb_check.evaluation.trials import Trial, black_box, describe_threat, spent
from grb_check.evaluation.white_box import white_box
from grb_check.evaluation.worst import worst_of
from grb_check.victims.subject import Model, Subject, as_subject

Progress: TypeAlias = Callable[[str], AbstractContextManager[None]]

ARENAS_KEPT = 2  # datasets held in memory with what was trained on them


def evaluate(
    model: Model,
    *,
    dataset: str | Path = "synthetic-cora",
    difficulty: str = "full",
    attack: str | object = "injection/pgd",
    repeats: int = 3,
    model_args: Mapping[str, object] | None = None,
    data: Path | str | Sequence[Path | str] = (),
    download: bool = False,
    split: str = "grb",
    training: str = "inductive",
    features: str = "grb",
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
        attack: `scenario/name`, a name that only one scenario has, or `pkg.module:attr`, each with
            or without modifiers (`pgd+white-box`, `prbcd+budget=0.1`); `scenario/worst`, the
            strongest of the suite `standard`; or an attack of your own, see
            `grb_check.attacks.protocol.Attack`.
        repeats: each with its own training and attack seed.
        model_args: keyword arguments for the factory.
        data: folders that hold datasets.
        download: whether a dataset that is in none of them may be downloaded.
        split: `grb`, or `given` for the one that the dataset brings along.
        training: `inductive`, or `transductive` for models that learn on the whole graph.
        features: GRB's normalisation, or `rows`: raw ones with rows that sum to 1.
        store: folder of perturbations to reuse; None keeps nothing.
        device: a torch device, or auto.

    Raises:
        UsageError, DataError, ModelError: see `grb_check.errors`.
    """
    choose("difficulty", difficulty, DIFFICULTIES)
    roster = Roster()
    pair = roster.one(attack) if isinstance(attack, str) else roster.add(attack)
    check_repeats("repeats", repeats)
    folders = [data] if isinstance(data, (str, Path)) else data
    places = datasets.Places(
        folders=tuple(Path(folder) for folder in folders),
        download=download,
        split=choose("split", split, SPLIT_RULES),
        training=choose("training", training, TRAININGS),
        features=choose("features", features, FEATURE_RULES),
    )
    source = datasets.find(str(dataset), places)
    folder = None if store is None else Path(store)
    evaluator = Evaluator(store=Store(folder), device=device, attacks=roster.own)
    case = Case(source.name, difficulty, *pair)
    return evaluator.outcome(as_subject(model, model_args), source, case, repeats)


@dataclass(frozen=True)
class _Plan:
    """A case made ready: its attack and what that may do."""

    case: Case
    attack: Attack
    threat: Threat


@dataclass(frozen=True)
class _Turn:
    """A model in one repeat, ready to be attacked."""

    subject: Subject
    arena: Arena
    ready: Ready
    seed: int
    label: str


class Evaluator:
    """Evaluates cases and keeps what they share: datasets, trained victims, the reference.

    A black-box attack sees the surrogates and their guesses of the labels of test nodes. A
    white-box attack is the worst case: it sees the victim itself and the true labels; see `trials`
    and `white_box`.

    Args:
        store: of perturbations and of the harness's own models.
        device: a torch device, or auto.
        progress: called with what begins; the context it returns ends with it.
        attacks: users' attacks by scenario and name, beside the built-in ones.
        shared: the victims that several processes train once for all; None: each its own.
    """

    def __init__(
        self,
        *,
        store: Store,
        device: str,
        progress: Progress | None = None,
        attacks: Mapping[Pair, Attack] | None = None,
        shared: SharedVictims | None = None,
    ) -> None:
        self.store = store
        self.device = resolve_device(device)
        self._shared = shared
        self._progress = progress or _silent
        self._attacks = {} if attacks is None else attacks
        self._arenas: dict[datasets.Source, Arena] = {}
        self._faced: dict[str, Perturbation] = {}  # of the last case, by digest

    def check(self, subject: Subject, source: datasets.Source) -> str:
        """Load the dataset and build the untrained model once, so that errors come early.

        Returns:
            The fingerprint of the dataset.

        Raises:
            DataError, ModelError, UsageError: the data or the factory is at fault.
        """
        arena = self._arena(source)
        with threads_for(arena.dataset.num_nodes):
            arena.build(subject, 0)
        return arena.fingerprint

    def outcome(
        self,
        subject: Subject,
        source: datasets.Source,
        case: Case,
        repeats: int,
        selected: Sequence[Pair] = (),
    ) -> Outcome:
        """Run one case.

        Args:
            subject: the model.
            source: of the dataset.
            case: which attack on which targets.
            repeats: each with its own seed.
            selected: the attacks of the run as the user selected them. `worst` takes the strongest
                of these where it is among them, and else of the suite `standard`; see
                `worst_members`.

        Raises:
            ModelError: the model cannot be trained or called, or answers nonsense.
            AttackError: a user's attack raised, or did not return a perturbation.
            BudgetError: an attack did more than its threat allows.
        """
        arena = self._arena(source)
        self._faced.clear()
        names: tuple[str, ...] = (case.attack,)
        if base_name(case.attack) == WORST:
            names = self._members(arena, case, selected)
        plans = [self._plan(arena, replace(case, attack=name)) for name in names]
        with threads_for(arena.dataset.num_nodes):
            done = [
                self._repeat(subject, arena, case, plans, seed, repeats) for seed in range(repeats)
            ]
        used = {each.perturbation for each, _ in done}
        self._faced = {name: each for name, each in self._faced.items() if name in used}
        messages = [*arena.notices, *(text for _, texts in done for text in texts)]
        return Outcome(
            case=case,
            model=subject.name,
            targets=int(plans[0].threat.targets.numel()),
            dataset=arena.fingerprint,
            origin=arena.dataset.origin,
            repeats=tuple(each for each, _ in done),
            warnings=tuple(dict.fromkeys(messages)),
            attack=_described(plans),
            threat=describe_threat(plans[0].threat),
        )

    def perturbations(
        self, subject: Subject, source: datasets.Source, outcome: Outcome
    ) -> tuple[Perturbation, ...]:
        """What the victim faced in each repeat of an outcome of this evaluator.

        Those of the last case are in memory; of `worst`, what an earlier case had measured is made
        again, by the store where that has it.

        Raises:
            AttackError: an attack that is asked again does something else.
        """
        return tuple(
            self._faced.get(each.perturbation) or self._again(subject, source, outcome.case, each)
            for each in outcome.repeats
        )

    @contextmanager
    def scene(
        self, subject: Subject, source: datasets.Source, case: Case, seed: int
    ) -> Iterator[Scene]:
        """The victim of a repeat, trained, with the clean graph and without any attack.

        Raises:
            ModelError: it cannot be trained.
            UsageError: the dataset has not what the case names.
        """
        arena = self._arena(source)
        budget = split_budget(case.attack)[1]
        scenario: Scenario = "injection" if case.scenario == "injection" else "modification"
        threat = threat_for(arena.dataset, case.difficulty, scenario, budget)
        with threads_for(arena.dataset.num_nodes):
            yield Scene(arena.victim(subject, seed), arena.dataset.graph, threat, seed)

    def dataset(self, source: datasets.Source) -> AnyDataset:
        """The dataset on the device, loaded once.

        Raises:
            DataError, UsageError: see `datasets.load`.
        """
        return self._arena(source).dataset

    def _again(
        self, subject: Subject, source: datasets.Source, case: Case, repeat: Measurement
    ) -> Perturbation:
        arena = self._arena(source)
        budget = split_budget(case.attack)[1]
        name = with_budget(repeat.member, budget) if repeat.member else case.attack
        plan = self._plan(arena, replace(case, attack=name))
        with threads_for(arena.dataset.num_nodes):
            ready = arena.victim(subject, repeat.seed)
            turn = _Turn(subject, arena, ready, repeat.seed, "again")
            made = self._measured(turn, plan).perturbation
        if made != repeat.perturbation:
            raise AttackError(
                f"{plan.case.id}, repeat {repeat.seed + 1}: asked again, the attack does something "
                f"else; see that it draws from the generator that it is given alone"
            )
        return self._faced[made]

    def _members(self, arena: Arena, case: Case, selected: Sequence[Pair]) -> tuple[str, ...]:
        """The attacks of which `worst` takes the strongest."""
        worst = (case.scenario, case.attack)
        if not isinstance(arena.dataset, GraphDataset):
            return worst_members(worst, selected)
        check_on_graphs(case)
        names = worst_members(worst, [pair for pair in selected if on_graphs(pair)])
        return tuple(name for name in names if on_graphs((case.scenario, name)))

    def _plan(self, arena: Arena, case: Case) -> _Plan:
        """What is to be done in a case; a wrong name is an error before anything is trained."""
        if isinstance(arena.dataset, GraphDataset):
            check_on_graphs(case)
        defaults = settings_for(arena.dataset, case.scenario)
        attack = load_attack(case.scenario, case.attack, defaults, self._attacks)
        check_kinds(attack, arena.dataset)
        budget = split_budget(case.attack)[1]
        return _Plan(
            case, attack, threat_for(arena.dataset, case.difficulty, attack.scenario, budget)
        )

    def _repeat(
        self,
        subject: Subject,
        arena: Arena,
        case: Case,
        plans: Sequence[_Plan],
        seed: int,
        repeats: int,
    ) -> tuple[Measurement, tuple[str, ...]]:
        label = f"{seed + 1}/{repeats}"
        start = time.perf_counter()
        with self._progress(f"{case.id}: repeat {label}, training {subject.name}"):
            ready = arena.victim(subject, seed, range(seed + 1, repeats))
        trained = time.perf_counter()
        turn = _Turn(subject, arena, ready, seed, label)
        if base_name(case.attack) == WORST:
            members = [(plan.case.attack, self._member(turn, plan)) for plan in plans]
            repeat = worst_of(members, int(plans[0].threat.targets.numel()))
        else:
            repeat = self._measured(turn, plans[0])
        return (
            replace(repeat, seconds=time.perf_counter() - start, training_seconds=trained - start),
            ready.warnings,
        )

    def _member(self, turn: _Turn, plan: _Plan) -> Measurement:
        """A repeat of a member of `worst`, from memory where its own case has come before."""
        known = turn.arena.repeats.get((turn.subject.key, plan.case, turn.seed))
        return known or self._measured(turn, plan)

    def _measured(self, turn: _Turn, plan: _Plan) -> Measurement:
        """What an attack costs model and reference; times are filled in by the caller."""
        measure, how = black_box, "attacking"
        if plan.attack.knowledge == "white-box":
            measure, how = white_box, "attacking, white-box"
        trial = Trial(turn.arena.own, plan.attack, plan.threat, plan.case, turn.seed)
        with self._progress(f"{plan.case.id}: repeat {turn.label}, {how}"):
            done = measure(trial, turn.ready)
        faced = digest(done.perturbation.tensors())[:16]
        self._faced[faced] = done.perturbation
        repeat = Measurement(
            seed=turn.seed,
            victim=done.victim,
            reference=done.reference,
            spent=spent(done.perturbation),
            from_store=done.from_store,
            seconds=0.0,
            training_seconds=0.0,
            notes=(*done.perturbation.notes, *done.notes),
            method=done.method,
            diagnostics=done.diagnostics,
            weights=turn.ready.weights,
            perturbation=faced,
        )
        turn.arena.remember((turn.subject.key, plan.case, turn.seed), repeat)
        return repeat

    def _arena(self, source: datasets.Source) -> Arena:
        arena = self._arenas.pop(source, None)
        if arena is None:
            with self._progress(f"loading {source.name}"):
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    dataset = datasets.load_either(source)
                on_device = replace(dataset, graph=dataset.graph.to(self.device))
                fingerprint = dataset.fingerprint()
                own = OwnModels(on_device, fingerprint, self.store, self.device)
                arena = Arena(
                    on_device, fingerprint, own, self.device, our_warnings(caught), self._shared
                )
        while len(self._arenas) >= ARENAS_KEPT:
            self._arenas.pop(next(iter(self._arenas)))
        self._arenas[source] = arena  # last = most recently used
        return arena


def _described(plans: Sequence[_Plan]) -> str:
    """What tells when the attack of a case changes; empty where nothing does."""
    texts = [describe(plan.attack) for plan in plans]
    if None in texts:
        return ""
    if len(texts) == 1:
        return str(texts[0])
    names = ", ".join(plan.case.attack for plan in plans)
    return f"worst of {names}: {hashlib.sha256(repr(texts).encode()).hexdigest()[:16]}"


def _silent(_: str) -> AbstractContextManager[None]:
    return nullcontext()
