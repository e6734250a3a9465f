"""The settings of a run: plain data, which other processes get, and which the run record holds.

Nothing here is opened: `runs.inputs` opens the files that settings name. With slots, msgspec writes
fields that have their defaults, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from grb_check import datasets
from grb_check.attacks.registry import Pair
from grb_check.cases.shards import Shard
from grb_check.datasets import Places, Source
from grb_check.datasets.formats.user_data import USER_DATA
from grb_check.datasets.source import FeatureRule, SplitRule, Training
from grb_check.gate.expected_failures import ExpectedFailure
from grb_check.gate.limits import Gate
from grb_check.ranking.comparison_models import ComparisonModels
from grb_check.settings.model_specs import ModelSpec
from grb_check.settings.options import OPTIONS
from grb_check.store.place import StorePlace


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetSpec:
    """A dataset of the run.

    Attributes:
        name: as in case ids.
        given: the text that finds it, see `datasets.find`.
        of_graphs: whether it is a set of graphs.
        split: of its nodes or graphs; None for the default of its kind.
        training: on which graph models are trained.
        features: how they are scaled; None for the default of its kind.
        metric: what figures are of; None for the default.
        function: import path of the user's function that makes it; empty if none does.
    """

    name: str
    given: str
    of_graphs: bool = False
    split: SplitRule | None = None
    training: Training = "inductive"
    features: FeatureRule | None = None
    metric: str | None = None
    function: str = ""


def spec_of(source: Source) -> DatasetSpec:
    """Return a source that was found as plain data."""
    places = source.places
    return DatasetSpec(
        name=source.name,
        given=source.given or source.name,
        of_graphs=source.of_graphs,
        split=places.split,
        training=places.training,
        features=places.features,
        metric=places.metric,
        function=source.spec if source.format is USER_DATA else "",
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Execution:
    """The part of the settings that changes no figure: where a run is measured, what it writes.

    Attributes:
        store: of perturbations and of finished measurements; None for none.
        jobs: processes of this machine; 0 for as many as it has room for; None for this one.
        executor: import path of a function that makes the executor; empty for none.
        timeout: seconds of a task in another process; None for any number.
        resume: whether measurements are taken from the store without a training.
        files: digest of all files that models may depend on; empty for those that they import.
        shard: the part of the run; None for the whole run.
        evidence: directory of evidence; empty for none.
        shrink: whether perturbations of failed cases are reduced.
        outputs: kind of report -> path.
        sources: where datasets are downloaded from.
        registered_datasets: name -> NAME=TARGET of plugins' datasets.
        registered_attacks: name, import path and plugin of plugins' attacks.
        user_attacks: users' attacks, by the names that they were given.
        digests: import path -> digest of the files of all that is the user's, when the run began;
            with an executor, also of grb_check's own.
        versions: that workers of an executor must have, by name.
    """

    store: StorePlace | None = None
    jobs: int | None = None
    executor: str = ""
    timeout: float | None = None
    resume: bool = False
    files: str = ""
    shard: Shard | None = None
    evidence: str = ""
    shrink: bool = False
    outputs: Mapping[str, str] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    registered_datasets: Mapping[str, str] = field(default_factory=dict)
    registered_attacks: tuple[tuple[str, str, str], ...] = ()
    user_attacks: tuple[str, ...] = ()
    digests: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def elsewhere(self) -> bool:
        """Whether other processes measure, and not the one that judges and reports."""
        return self.jobs is not None or bool(self.executor)


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """The settings that figures and verdicts depend on: the section of the run record.

    Attributes:
        attacks: at each of the budgets, if there are any, and those that node ids add.
        selected: attacks as the options select them, of which `worst` is the strongest.
        data: directories to search for datasets.
        split, training, features, metric: of the run; a dataset may have others, see `DatasetSpec`.
        pack: path of the file that black-box perturbations are taken from; empty to make them.
        pack_digest: that the file has to have; empty until it was opened.
        baseline: path of the file; empty for none.
        update: whether the baseline is to be written.
        margin: tolerated loss of attacked accuracy, in percentage points.
        base: name of the revision to compare with; None for none.
        given: option -> its value as it was given; none for those that were not.
        origins: option -> where its value came from.
    """

    models: tuple[ModelSpec, ...] = ()
    suite: str = "smoke"
    datasets: tuple[DatasetSpec, ...] = ()
    difficulties: tuple[str, ...] = ()
    attacks: tuple[Pair, ...] = ()
    selected: tuple[Pair, ...] = ()
    budgets: tuple[float, ...] = ()
    patterns: tuple[str, ...] = ()
    repeats: int = 3
    gate: Gate = Gate()
    expected_failures: tuple[ExpectedFailure, ...] = ()
    comparison_models: ComparisonModels = ComparisonModels()
    data: tuple[str, ...] = ()
    download: bool = False
    split: SplitRule | None = None
    training: Training = "inductive"
    features: FeatureRule | None = None
    metric: str | None = None
    device: str = "auto"
    pack: str = ""
    pack_digest: str = ""
    baseline: str = ""
    update: bool = False
    margin: float = 0.0
    base: str | None = None
    given: Mapping[str, str] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)

    @property
    def labels(self) -> tuple[str, ...]:
        """Model labels in case ids; one empty label if there is a single model."""
        return tuple(model.label for model in self.models) if len(self.models) > 1 else ("",)

    @property
    def label(self) -> str:
        """Label of the first model, which case ids of a single model lack; empty without one."""
        return self.models[0].label if self.models else ""

    @property
    def only_label(self) -> str:
        """Label of the only model; empty if there are several."""
        return self.label if len(self.models) == 1 else ""

    def model(self, label: str) -> ModelSpec:
        """Return the model of a label; the first one for any other label."""
        return next((model for model in self.models if model.label == label), self.models[0])

    @property
    def places(self) -> Places:
        """The directories of datasets, and how datasets are read."""
        return _places(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSettings(Settings):
    """Settings of a run on this machine: those of its record, and where it runs."""

    execution: Execution = Execution()

    @property
    def places(self) -> Places:
        """The same, with the user's list of download sources."""
        return replace(_places(self), sources=self.execution.sources)

    @property
    def recorded(self) -> Settings:
        """The settings of the run record: without where it ran and what it wrote."""
        recorded_options = {
            option.dest
            for option in OPTIONS
            if option.section not in ("where", "reports", "failures")
        }
        values = {entry.name: getattr(self, entry.name) for entry in fields(Settings)}
        values["given"] = {
            name: text for name, text in self.given.items() if name in recorded_options
        }
        values["origins"] = {
            name: text for name, text in self.origins.items() if name in recorded_options
        }
        return Settings(**values)


def _places(settings: Settings) -> Places:
    return Places(
        folders=tuple(map(Path, settings.data)),
        download=settings.download,
        split=settings.split,
        training=settings.training,
        features=settings.features,
        metric=settings.metric,
    )


def found_again(spec: DatasetSpec, settings: RunSettings) -> Source:
    """Return a dataset of the run as it was found when its options were read.

    Raises:
        UsageError: it is not there any more.
    """
    places = replace(
        settings.places,
        split=spec.split,
        training=spec.training,
        features=spec.features,
        metric=spec.metric,
    )
    return datasets.find(spec.given, places)
