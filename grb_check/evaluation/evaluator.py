"""Measures cases in this process, one after another. Does not depend on pytest."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Final

from grb_check import datasets
from grb_check.attacks.protocol import Attack
from grb_check.attacks.registry import Pair
from grb_check.attacks.threat import Threat
from grb_check.attacks.verdicts import Tell, untold
from grb_check.cases.case import Case
from grb_check.cases.outcomes import UNDEFENDED, Outcome
from grb_check.cases.repeat_results import CaseFacts, RepeatResult, outcome_of
from grb_check.datasets.graph_dataset import AnyDataset
from grb_check.datasets.metric import why_metric
from grb_check.evaluation.dataset_cache import DatasetCache, load_cache
from grb_check.evaluation.devices import resolve_device, threads_for
from grb_check.evaluation.exact import check_reach, proves
from grb_check.evaluation.packed import check_pack
from grb_check.evaluation.references import any_learned
from grb_check.evaluation.repeats import Progress, measure_repeat, reference_scores, trial_of
from grb_check.evaluation.results import facts_of
from grb_check.evaluation.surrogates import first_on, references_on
from grb_check.evaluation.trained_model import TrainedModel
from grb_check.evaluation.trial import Trial
from grb_check.files.versions import PACK, measured_with
from grb_check.store.pack import Pack
from grb_check.store.store import Store
from grb_check.user_code.calls import restored
from grb_check.victims.subject import Subject

DATASETS_KEPT: Final = 2  # datasets held in memory, with their caches


class Evaluator:
    """Evaluates cases one by one, and keeps a `DatasetCache` for each of the last datasets.

    A black-box attack sees surrogates and the labels that they predict for test nodes. A white-box
    attack is the worst case: it sees the victim itself and the true labels. See `white_box`.

    Args:
        store: of perturbations and of the harness's own models.
        device: a torch device, or auto.
        progress: see `measure_repeat`.
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

    def fingerprint(self, source: datasets.Source) -> str:
        """Return the fingerprint of a dataset, loaded at its first use."""
        return self._cache(source).harness.fingerprint

    def why_metric(self, source: datasets.Source) -> str:
        """Return what figures of a dataset are of, and why, see `metric.why_metric`."""
        return why_metric(self.dataset(source), source.places.metric)

    def target_weights(self, source: datasets.Source, threat: Threat) -> bytes:
        """Return the weights of targets, see `balanced_weights`; empty for accuracy."""
        return self._cache(source).harness.target_weights(threat)

    def trial(self, source: datasets.Source, case: Case, seed: int = 0) -> Trial:
        """Return a case in one repeat, see `repeats.trial_of`.

        Raises:
            DataError, UsageError: the dataset cannot be loaded, or cannot have this case.
        """
        return trial_of(self._cache(source).harness, case, self._attacks, seed)

    def check_pack(self, source: datasets.Source, cases: Sequence[Case]) -> None:
        """Check that the pack, if there is one, has all perturbations that these cases need.

        Args:
            source: of their dataset.
            cases: of a run.

        Raises:
            UsageError: see `packed.check_pack`.
        """
        if self._pack is not None:
            check_pack(self._pack, (self.trial(source, case) for case in cases))

    def check_proofs(
        self, subject: Subject, source: datasets.Source, cases: Sequence[Case]
    ) -> None:
        """Check that something can be proven of a model of which nothing else is asked.

        Args:
            subject: the model, untrained.
            source: of the dataset.
            cases: all of the model on the dataset.

        Raises:
            UnknownReachError: see `exact.check_reach`.
        """
        if not all(proves(self.trial(source, case).attack) for case in cases):
            return
        cache = self._cache(source)
        dataset = cache.harness.dataset
        with threads_for(dataset.num_nodes), restored():
            built = cache.victims.build(subject, 0)
            check_reach(built, dataset, name=subject.name, device=self.device)

    def outcome(
        self, subject: Subject, source: datasets.Source, case: Case, repeats: int
    ) -> Outcome:
        """Run all repeats of a case, with all references; see `repeat`."""
        kinds = references_on(self.dataset(source))
        results = [
            self.repeat(subject, source, case, seed, repeats=repeats, kinds=kinds)
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
        kinds: Sequence[str] | None = None,
    ) -> RepeatResult:
        """Run one repeat of a case.

        Args:
            subject: the model.
            source: of the dataset.
            case: which attack on which targets; not `worst`, which is made of others.
            seed: of the repeat, from 0.
            repeats: number of repeats of the run, for the progress.
            kinds: of the references to attack as well, "gcn" first; none where the case has shipped
                ones; default: see `first_on`.

        Raises:
            UsageError: the dataset cannot have this case, or an attack or surrogate is unknown.
            ModelError: the model cannot be trained or called, or its output is wrong.
            AttackError: a user's attack raised, or did not return a perturbation.
            BudgetError: an attack did more than its threat allows.
        """
        cache = self._cache(source)
        with threads_for(cache.harness.dataset.num_nodes), restored():
            return measure_repeat(
                cache,
                subject,
                self.trial(source, case, seed),
                kinds=first_on(cache.harness.dataset) if kinds is None else kinds,
                label=f"repeat {seed + 1}/{repeats}",
                progress=self._progress,
            )

    def references(
        self,
        source: datasets.Source,
        case: Case,
        result: RepeatResult,
        undefended: Collection[str],
    ) -> RepeatResult:
        """Return a result of `repeat` with the scores of further references.

        Those that it lacks are not attacked where no undefended one has learned the data.

        Args:
            source: of the dataset.
            case: of the result.
            result: to complete.
            undefended: kinds of undefended references that are wanted, if the dataset can have
                them.
        """
        measured = result.measurement
        trial = self.trial(source, case, measured.seed)
        dataset = trial.harness.dataset
        others = {*UNDEFENDED} - {*undefended}
        kinds = [kind for kind in references_on(dataset) if kind not in others]
        have = {**measured.references, **result.facts.shipped}
        missing = [kind for kind in kinds if kind not in have]
        with (
            threads_for(dataset.num_nodes),
            restored(),
            self._progress(f"{case.id}: references of the default limit") as tell,
        ):
            trial = replace(trial, tell=tell)
            if missing and not any_learned(trial, kinds):
                missing = []
            scores = reference_scores(trial, result.methods, missing)
        known = {**measured.references, **scores}
        references = {kind: known[kind] for kind in references_on(dataset) if kind in known}
        return replace(result, measurement=replace(measured, references=references))

    def facts(self, source: datasets.Source, case: Case) -> CaseFacts:
        """Return what all repeats of a case have in common; see `repeat` for the arguments."""
        return facts_of(self.trial(source, case))

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

    def trained(self, subject: Subject, source: datasets.Source, seed: int) -> str:
        """Return the digest of the victim of a repeat, see `TrainedModel.digest`.

        Raises:
            ModelError: it cannot be built, trained or called.
        """
        with self._progress(f"training {subject.name}, repeat {seed + 1}"):
            victim = self.victim(subject, source, seed)
        return victim.digest(self.dataset(source).graph, seed)

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


def _silent(_: str) -> AbstractContextManager[Tell]:
    return nullcontext(untold)
