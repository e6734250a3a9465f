"""Makes the pack of a run: its black-box perturbations from the store, or made again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from grb_check import datasets
from grb_check.attacks.names import WORST, base_name, without_budgets
from grb_check.attacks.parts import joined_parts
from grb_check.attacks.registry import Pair
from grb_check.attacks.threat import Perturbation
from grb_check.cases.attack_registry import AttackRegistry
from grb_check.cases.case import Case
from grb_check.cases.outcomes import Measurement, Outcome
from grb_check.cases.suites import members_of
from grb_check.datasets import Places, Source
from grb_check.datasets.dataset import digest
from grb_check.errors import DataError, GradientError, UsageError, count
from grb_check.evaluation.devices import threads_for
from grb_check.evaluation.evaluator import Evaluator
from grb_check.evaluation.fallbacks import black_box_trials
from grb_check.evaluation.packed import requests_of
from grb_check.evaluation.perturbations import on_surrogates
from grb_check.evaluation.results import facts_of
from grb_check.evaluation.store_keys import description_of, request_of
from grb_check.evaluation.trial import Trial
from grb_check.evaluation.worst import describe_worst
from grb_check.files.versions import NUMERIC, PACK, PROCESSOR, THREADS, measured_with
from grb_check.reports.record import RunRecord, environment_of
from grb_check.store.pack import Pack, PerturbationRequest, write_pack
from grb_check.store.place import StorePlace, open_store
from grb_check.user_code.calls import restored


@dataclass(frozen=True, kw_only=True)
class PackSources:
    """Everything that a pack is made from.

    Attributes:
        record: of the run.
        store: its store; None for none.
        datasets: texts for those that names do not find, as `NAME=PATH`.
        folders: of datasets; empty for those of the run.
        attacks: import paths of users' attacks.
        device: a torch device, or auto.
    """

    record: RunRecord
    store: StorePlace | None
    datasets: Sequence[str]
    folders: Sequence[Path]
    attacks: Sequence[str]
    device: str


def write(making: PackSources, path: Path) -> Pack:
    """Write the pack.

    Raises:
        UsageError: the run has no figures or an attack without a version; a perturbation, an attack
            or a threat is another one here.
        DataError: a dataset is not that of the run.
        OSError: the file cannot be written.
    """
    made_from = making.record.environment.get(PACK)
    if made_from is not None:
        raise UsageError(
            f"the run took its perturbations from the pack with digest {made_from}; use that file"
        )
    outcomes = [case.outcome for case in making.record.cases if case.outcome is not None]
    if not outcomes:
        raise UsageError("the run record has no case with figures; give the record of another run")
    registry = AttackRegistry()
    if making.attacks:
        registry.select(registry.split(making.attacks))
    try:
        registry.select({f"{outcome.case.scenario}/{outcome.case.attack}" for outcome in outcomes})
    except UsageError as error:
        raise UsageError(f"{error}; name your own attacks with --attack") from None
    evaluator = Evaluator(
        store=open_store(making.store), device=making.device, attacks=registry.user_attacks
    )
    try:
        return write_pack(path, _all(making, evaluator, outcomes))
    except _Differ as error:
        raise UsageError(
            f"in {count(len(error.cases), 'case')} ({', '.join(error.cases)}) the perturbations "
            f"differ from those of the run, {_reason(making.record, str(evaluator.device))}; make "
            f"the pack with the store and on the machine of the run"
        ) from None


class _Differ(Exception):
    """Perturbations of these cases differ from those of the run, so that no file is written."""

    def __init__(self, cases: Sequence[str]) -> None:
        self.cases = cases


def _all(
    making: PackSources, evaluator: Evaluator, outcomes: Sequence[Outcome]
) -> Iterator[tuple[PerturbationRequest, Perturbation | GradientError]]:
    """Yield what each perturbation is for, and the perturbation.

    Raises:
        _Differ: at the end, if some differ from those of the run.
    """
    selected = making.record.settings.selected
    sources = {
        name: _source(making, name) for name in {outcome.case.dataset for outcome in outcomes}
    }
    digests: dict[PerturbationRequest, str] = {}
    differing = []
    for outcome in sorted(
        outcomes, key=lambda outcome: outcome.case.dataset
    ):  # few are kept in memory
        trials = _trials(evaluator, sources[outcome.case.dataset], outcome, selected)
        requested = {
            key: black_box
            for trial in trials
            for key, black_box in requests_of(trial).items()
            if key not in digests
        }
        with threads_for(trials[0].harness.dataset.num_nodes), restored():
            for key, trial in requested.items():
                try:
                    perturbation = on_surrogates(trial)[0]
                except GradientError as error:
                    digests[key] = ""
                    yield key, error
                else:
                    digests[key] = digest(perturbation.tensors())[:16]
                    yield key, perturbation
            same = all(_as_recorded(trials, repeat, digests) for repeat in outcome.repeats)
        if not same:
            differing.append(outcome.case.id)
    if differing:
        raise _Differ(differing)


def _source(making: PackSources, name: str) -> Source:
    """Return a dataset of the run.

    Raises:
        UsageError: it is not found by its name.
    """
    settings = making.record.settings
    recorded = [Path(folder) for folder in settings.data if Path(folder).is_dir()]
    places = Places(
        folders=tuple(making.folders or recorded),
        download=settings.download,
        split=settings.split,
        training=settings.training,
        features=settings.features,
        metric=settings.metric,
    )
    given = {text.partition("=")[0]: text for text in making.datasets}
    try:
        return datasets.find(datasets.anchored(given.get(name, name), Path.cwd()), places)
    except UsageError as error:
        if name in given:
            raise
        raise UsageError(f"{error}; or name the one of the run with --dataset {name}=...") from None


def _trials(
    evaluator: Evaluator, source: Source, outcome: Outcome, selected: Sequence[Pair]
) -> Sequence[Trial]:
    """Return the trials of a case, which are those of the run.

    Raises:
        DataError: the dataset is another one.
        UsageError: the attack or its threat is another one, or has no version.
    """
    case = outcome.case
    members = members_of(case, selected, of_graphs=source.of_graphs)
    trials = [evaluator.trial(source, member) for member in members]
    fingerprint = trials[0].harness.fingerprint
    if fingerprint != outcome.dataset:
        raise DataError(
            f"dataset {source.name} is not that of the run: its fingerprint is {fingerprint[:16]}, "
            f"that of the run {outcome.dataset[:16]}; give the same with --dataset or --data"
        )
    if not outcome.attack:
        raise UsageError(
            f"{case.id}: the attack has no version, so that its perturbations may have changed "
            f"since the run; give it one, and run again"
        )
    now = f"{_described(case, trials)} with the threat {facts_of(trials[0]).threat}"
    then = f"{outcome.attack} with the threat {outcome.threat}"
    if now != then:
        raise UsageError(
            f"{case.id} of the run is {then}, but here it is {now}; use the release and the "
            f"attacks of the run, or run again"
        )
    return trials


def _described(case: Case, trials: Sequence[Trial]) -> str:
    """The attack of a case, with its version and settings; empty if it has no version."""
    texts = [description_of(trial) for trial in trials]
    if base_name(case.attack) == WORST:
        return describe_worst([trial.case.attack for trial in trials], texts)
    return texts[0] or ""


def _as_recorded(
    trials: Sequence[Trial], repeat: Measurement, digests: Mapping[PerturbationRequest, str]
) -> bool:
    """Whether the perturbation of a repeat, unless it was made for the victim, is that of the run.

    Args:
        trials: of the case.
        repeat: of the record.
        digests: of the perturbations that were made or stored.
    """
    if repeat.method not in ("black-box", "transferred"):
        return True
    names = [without_budgets(trial.case.attack) for trial in trials]
    trial = trials[names.index(repeat.member) if repeat.member in names else 0]
    if trial.threat.parts:
        if repeat.method != "black-box":  # parts may have other methods each
            return True
        made = [on_surrogates(replace(part, seed=repeat.seed))[0] for part in trial.parts]
        whole = joined_parts(made, trial.harness.dataset.num_nodes)
        return digest(whole.tensors())[:16] == repeat.perturbation
    requested = request_of(replace(black_box_trials(trial)[0], seed=repeat.seed))
    return digests[requested] == repeat.perturbation


def _reason(record: RunRecord, device: str) -> str:
    """A possible reason for other perturbations: the environment of the run, where it differs."""
    then, now = record.environment, environment_of(measured_with(device))
    differing = [
        f"{name} {then[name]}, here {now[name]}"
        for name in (*NUMERIC, PROCESSOR, THREADS)
        if name in then and then[name] != now[name]
    ]
    if differing:
        return f"which was made in another environment ({'; '.join(differing)})"
    return "though versions, processor and threads are the same"
