"""Attack a model and measure it: model + case -> Outcome. Does not depend on pytest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Final

from grb_check import datasets
from grb_check.attacks.protocol import Attack
from grb_check.attacks.registry import Pair
from grb_check.attacks.scenarios import POISONING
from grb_check.cases.attack_registry import AttackRegistry
from grb_check.cases.case import DIFFICULTIES, Case
from grb_check.cases.outcomes import Outcome
from grb_check.cases.repeat_results import CaseFacts, RepeatResult, outcome_of
from grb_check.cases.whole_numbers import check_repeats
from grb_check.datasets.graph_dataset import AnyDataset
from grb_check.datasets.source import FEATURE_RULES, SPLIT_RULES, TRAININGS
from grb_check.errors import choose, chosen
from grb_check.evaluation.dataset_cache import DatasetCache, load_cache
from grb_check.evaluation.devices import resolve_device, threads_for
from grb_check.evaluation.packed import check_pack
from grb_check.evaluation.repeats import Progress, described, measure_repeat, plan, reference_scores
from grb_check.evaluation.results import facts_of
from grb_check.evaluation.surrogates import first_on, references_on
from grb_check.evaluation.trained_model import TrainedModel
from grb_check.evaluation.trial import Trial
from grb_check.files.versions import PACK, measured_with
from grb_check.store.pack import Pack, open_pack
from grb_check.store.place import open_store, place_of
from grb_check.store.store import Store
from grb_check.user_code.calls import restored
from grb_check.victims.subject import Model, Subject, as_subject

DATASETS_KEPT: Final = 2  # datasets held in memory, with their caches


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
    split: str | None = None,
    training: str | None = None,
    features: str | None = None,
    store: Path | str | None = None,
    pack: Path | str | None = None,
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
            strongest of the suite `standard` (of `poisoning`, for that scenario); or an attack of
            your own, see `grb_check.attacks.protocol.Attack`.
        repeats: number of repeats, each with its own training and attack seed.
        model_args: keyword arguments for the factory.
        data: folders to look for datasets in.
        download: whether a dataset that is in none of them may be downloaded.
        split: `grb`, or `given` for the split that comes with the dataset; None for `given` if the
            data is your own and has one, else `grb`.
        training: `inductive`, or `transductive` for models that learn on the whole graph; None for
            what the scenario needs: `transductive` for poisoning.
        features: `grb` for GRB's normalisation, `rows` for rows that sum to 1, `given` to change
            nothing; None for `given` if the data is your own, else `grb`.
        store: folder of perturbations to reuse; None stores nothing.
        pack: file that all black-box perturbations are taken from, as for `--grb-pack`.
        device: a torch device, or auto.

    Raises:
        UsageError, DataError, ModelError: see `grb_check.errors`.
    """
    choose("difficulty", difficulty, DIFFICULTIES)
    registry = AttackRegistry()
    opened = None if pack is None else open_pack(Path(pack))
    pair = registry.one(attack) if isinstance(attack, str) else registry.add(attack)
    check_repeats("repeats", repeats)
    folders = [data] if isinstance(data, (str, Path)) else data
    places = datasets.Places(
        folders=tuple(Path(folder) for folder in folders),
        download=download,
        split=chosen("split", split, SPLIT_RULES),
        training=chosen("training", training, TRAININGS)
        or ("transductive" if pair[0] == POISONING else "inductive"),
        features=chosen("features", features, FEATURE_RULES),
    )
    source = datasets.find(str(dataset), places)
    location = None if store is None else place_of(store, "store")
    evaluator = Evaluator(
        store=open_store(location), device=device, attacks=registry.user_attacks, pack=opened
    )
    case = Case(source.name, difficulty, *pair)
    return evaluator.outcome(as_subject(model, model_args), source, case, repeats)


class Evaluator:
    """Evaluates cases one by one, and keeps a `DatasetCache` for each of the last datasets.

    A black-box attack sees surrogates and the labels that they predict for test nodes. A white-box
    attack is the worst case: it sees the victim itself and the true labels. See `trials` and
    `white_box`.

    Args:
        store: of perturbations and of the harness's own models.
        device: a torch device, or auto.
        progress: called with each step; the context that it returns ends with the step.
        attacks: users' attacks by scenario and name, besides the built-in ones.
        pack: that black-box perturbations are taken from; None to make them.
    """

    def __init__(
        self,
        *,
        store: Store,
        device: str,
        progress: Progress | None = None,
        attacks: Mapping[Pair, Attack] | None = None,
        pack: Pack | None = None,
    ) -> None:
        self.store = store
        self.device = resolve_device(device)
        self._pack = pack
        self._progress = progress or _silent
        self._attacks = {} if attacks is None else attacks
        self._caches: dict[datasets.Source, DatasetCache] = {}  # the last one was used last

    def check(self, subject: Subject, source: datasets.Source) -> str:
        """Load the dataset and build the untrained model once, so that errors come early.

        Returns:
            The fingerprint of the dataset.

        Raises:
            DataError, ModelError, UsageError: the data or the factory is at fault.
        """
        cache = self._cache(source)
        with threads_for(cache.harness.dataset.num_nodes), restored():
            cache.victims.build(subject, 0)
        return cache.harness.fingerprint

    def trials(
        self, source: datasets.Source, case: Case, selected: Sequence[Pair] = ()
    ) -> tuple[Trial, ...]:
        """Return the trials of a case, see `repeats.plan`.

        Raises:
            DataError, UsageError: the dataset cannot be loaded, or cannot have this case.
        """
        return plan(self._cache(source).harness, case, self._attacks, selected)

    def check_pack(
        self,
        source: datasets.Source,
        cases: Sequence[Case],
        selected: Sequence[Pair] = (),
    ) -> None:
        """Check that the pack, if there is one, has all perturbations that these cases need.

        Args:
            source: of their dataset.
            cases: of a run.
            selected: attacks of the run as the user selected them.

        Raises:
            UsageError: see `packed.check_pack`.
        """
        if self._pack is not None:
            trials = ((case, self.trials(source, case, selected)) for case in cases)
            check_pack(self._pack, trials)

    def outcome(
        self,
        subject: Subject,
        source: datasets.Source,
        case: Case,
        repeats: int,
        selected: Sequence[Pair] = (),
    ) -> Outcome:
        """Run all repeats of a case, with all references; see `repeat`."""
        kinds = references_on(self.dataset(source))
        results = [
            self.repeat(
                subject, source, case, seed, repeats=repeats, selected=selected, kinds=kinds
            )
            for seed in range(repeats)
        ]
        return outcome_of(case, subject.name, results)

    def repeat(
        self,
        subject: Subject,
        source: datasets.Source,
        case: Case,
        seed: int,
        *,
        repeats: int,
        selected: Sequence[Pair] = (),
        kinds: Sequence[str] | None = None,
    ) -> RepeatResult:
        """Run one repeat of a case.

        Args:
            subject: the model.
            source: of the dataset.
            case: which attack on which targets.
            seed: of the repeat, from 0.
            repeats: number of repeats of the run, for the progress.
            selected: attacks of the run as the user selected them, see `worst_members`.
            kinds: of the references to attack as well, "gcn" first; none where the case has shipped
                ones; default: see `first_on`.

        Raises:
            UsageError: the dataset cannot have this case, or an attack or surrogate is unknown.
            ModelError: the model cannot be trained or called, or its output is wrong.
            AttackError: a user's attack raised, or did not return a perturbation.
            BudgetError: an attack did more than its threat allows.
        """
        cache = self._cache(source)
        trials = self.trials(source, case, selected)
        label = f"repeat {seed + 1}/{repeats}"
        with threads_for(cache.harness.dataset.num_nodes), restored():
            return measure_repeat(
                cache,
                subject,
                trials,
                case,
                seed,
                kinds=first_on(cache.harness.dataset) if kinds is None else kinds,
                label=label,
                progress=self._progress,
            )

    def references(
        self,
        source: datasets.Source,
        case: Case,
        result: RepeatResult,
        selected: Sequence[Pair] = (),
    ) -> RepeatResult:
        """Return a result of `repeat` with the scores of all references."""
        cache = self._cache(source)
        trials = self.trials(source, case, selected)
        measured = result.measurement
        kinds = references_on(cache.harness.dataset)
        have = {**measured.references, **({} if len(trials) > 1 else result.facts.shipped)}
        missing = [kind for kind in kinds if kind not in have]
        with (
            threads_for(cache.harness.dataset.num_nodes),
            restored(),
            self._progress(f"{case.id}: references of the default limit"),
        ):
            scores = reference_scores(trials, measured.seed, result.attacked_by, missing)
        known = {**measured.references, **scores}
        references = {kind: known[kind] for kind in kinds if kind in known}
        return replace(result, measurement=replace(measured, references=references))

    def facts(
        self, source: datasets.Source, case: Case, selected: Sequence[Pair] = ()
    ) -> CaseFacts:
        """Return what all repeats of a case have in common; see `repeat` for the arguments."""
        trials = self.trials(source, case, selected)
        return facts_of(trials[0], described(trials))

    @property
    def environment(self) -> dict[str, str]:
        """Everything else that figures depend on, see `measured_with`, and the pack if any."""
        packed = {} if self._pack is None else {PACK: self._pack.digest[:16]}
        return {**measured_with(str(self.device)), **packed}

    def victim(self, subject: Subject, source: datasets.Source, seed: int) -> TrainedModel:
        """Return the victim of a repeat, trained at its first use.

        Raises:
            ModelError: it cannot be built, trained or called.
        """
        cache = self._cache(source)
        with threads_for(cache.harness.dataset.num_nodes), restored():
            return cache.victims.get(subject, seed)

    def dataset(self, source: datasets.Source) -> AnyDataset:
        """Return the dataset on the device, loaded at its first use.

        Raises:
            DataError, UsageError: see `datasets.load`.
        """
        return self._cache(source).harness.dataset

    def _cache(self, source: datasets.Source) -> DatasetCache:
        cache = self._caches.pop(source, None)
        if cache is None:
            with self._progress(f"loading {source.name}"):
                cache = load_cache(source, self.store, self.device, self._pack)
        while len(self._caches) >= DATASETS_KEPT:
            self._caches.pop(next(iter(self._caches)))
        self._caches[source] = cache
        return cache


def _silent(_: str) -> AbstractContextManager[None]:
    return nullcontext()
