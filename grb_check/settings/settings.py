"""The settings of a run: one frozen object, and the options that each of its fields is read from.

An option is declared here and nowhere else: pytest's options and ini values, the pages of the
documentation and `grb_check.run` follow. A field is read by the property of the same name of
`settings.reading.Reading`. Imports nothing heavy: every run of pytest loads this module.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from grb_check.attacks.registry import Pair
    from grb_check.cases.shards import Shard
    from grb_check.datasets import Places, Source
    from grb_check.gate.baselines.baseline import Baseline
    from grb_check.gate.expected_failures import ExpectedFailure
    from grb_check.gate.limits import Gate
    from grb_check.ranking.comparison_models import ComparisonModels
    from grb_check.settings.model_specs import ModelSpec
    from grb_check.store.pack import Pack
    from grb_check.store.place import StorePlace
    from grb_check.user_code.revisions import Revision

# Origins of values, and what stands for a value that is not given.
COMMAND_LINE: Final = "command line"
INI: Final = "ini"
DEFAULT: Final = "default"
MISSING: Final = object()

UPDATE_FLAG: Final = "--grb-update-baseline"

IniType: TypeAlias = Literal["string", "linelist", "int", "float", "bool"]
# Groups of the page of the reference.
Section: TypeAlias = Literal[
    "attacked", "data", "limits", "baselines", "ranks", "reports", "failures", "where"
]
# selects: cases, so that ranks of the ini file may not apply. needs a model: an error without one.
# of attacks: means nothing in a suite without attacks. place: where and in which order a run is
# measured, which changes no figure. python: `grb_check.run` takes it.
Tag: TypeAlias = Literal["selects", "needs a model", "of attacks", "place", "python"]


@dataclass(frozen=True)
class Option:
    """An option of the command line with its ini value; one without a flag is an ini value alone.

    Attributes:
        flag: such as `--grb-max-drop`; empty for an ini value alone.
        metavar: its form; empty for a switch.
        help: for `pytest --help` and the page of the reference.
        ini: name of the ini value; `grb_max_drop` if it is not given.
        section: of the page of the reference.
        type: of the ini value.
        repeatable: whether it takes several values.
        tags: see `Tag`.
        dest: name of the value: `--grb-max-drop` is `grb_max_drop`.
    """

    flag: str
    metavar: str
    help: str
    ini: str = ""
    section: Section | None = None
    type: IniType = "string"
    repeatable: bool = False
    tags: tuple[Tag, ...] = ()
    dest: str = field(init=False)

    def __post_init__(self) -> None:
        dest = self.flag.lstrip("-").replace("-", "_") or self.ini
        object.__setattr__(self, "dest", dest)
        object.__setattr__(self, "ini", self.ini or dest)


def _by(section: Section, *options: Option) -> Any:
    """A field that is read from these options, of this section if they name no other."""
    sectioned = tuple(replace(option, section=option.section or section) for option in options)
    return field(metadata={"options": sectioned})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a run.

    Attributes:
        attacks: at each of the budgets, if there are any.
        jobs: processes of this machine; 0 for as many as it has room for.
        timeout: seconds of a task in another process; None for any number.
        base: the revision to compare with; the baseline is made from it when the run begins.
        registered_datasets: name -> NAME=TARGET of plugins' datasets.
        given: option -> its value as it was given; none for those that were not.
        origins: option -> where its value came from.
    """

    models: tuple[ModelSpec, ...] = _by(
        "attacked",
        Option(
            "--grb-model",
            "[LABEL=]PKG.MODULE:ATTR",
            "factory of the model to attack, or a name of --grb-list=models, or zoo for all "
            "that learn with labels; repeat it to compare several",
            repeatable=True,
        ),
        Option(
            "--grb-model-args",
            "NAME=VALUE,...",
            "keyword arguments for the factory; once for all models, or once for each in "
            "their order",
            repeatable=True,
            tags=("python",),
        ),
    )
    suite: str = _by(
        "attacked",
        Option(
            "--grb-suite",
            "NAME",
            "cases to run if nothing else is selected: a name of --grb-list=suites (default: "
            "smoke)",
            tags=("selects", "needs a model", "python"),
        ),
    )
    datasets: tuple[Source, ...] = _by(
        "attacked",
        Option(
            "--grb-dataset",
            "NAME|PATH|pyg:CLASS/NAME|PKG.MODULE:FUNCTION",
            "dataset to run on, a graph or a set of graphs: a known name (python -m "
            "grb_check datasets), a directory or zip in GRB's four-file format or "
            "TUDataset's layout, an npz or pt file, a class of PyG, or a function of yours; "
            "NAME=... names it",
            ini="grb_datasets",
            type="linelist",
            repeatable=True,
            tags=("selects", "needs a model", "python"),
        ),
    )
    difficulties: tuple[str, ...] = _by(
        "attacked",
        Option(
            "--grb-difficulty",
            "easy|medium|hard|full",
            "test nodes to attack, by degree",
            ini="grb_difficulties",
            type="linelist",
            repeatable=True,
            tags=("selects", "needs a model", "python"),
        ),
    )
    attacks: tuple[Pair, ...] = _by(
        "attacked",
        Option(
            "--grb-attack",
            "[SCENARIO/]NAME[+MODIFIER...]|PATTERN|PKG.MODULE:ATTR",
            "attack to run; modifiers are hao, white-box, black-box, ensemble, budget=SHARE, "
            "local=SHARE or SETTING=VALUE, as in pgd+white-box+iterations=200; worst is the "
            "strongest of the others of its scenario; a pattern such as 'injection/*' "
            "selects those of the suite; PKG.MODULE:ATTR is an attack of yours",
            ini="grb_attacks",
            type="linelist",
            repeatable=True,
            tags=("selects", "needs a model", "of attacks", "python"),
        ),
    )
    budgets: tuple[float, ...] = _by(
        "attacked",
        Option(
            "--grb-budget",
            "SHARE",
            "run each case at each of these budgets, as 0.01,0.05,0.1 or 5%%: the share of "
            "edges and of targets' features that may change, or injected nodes for each "
            "target (default: GRB's)",
            ini="grb_budgets",
            type="linelist",
            repeatable=True,
            tags=("selects", "needs a model", "of attacks", "python"),
        ),
    )
    patterns: tuple[str, ...] = _by(
        "attacked",
        Option(
            "--grb-case",
            "PATTERN",
            "keep the cases whose id (dataset/difficulty/scenario/attack) matches the shell "
            "pattern",
            ini="grb_cases",
            type="linelist",
            repeatable=True,
            tags=("selects", "needs a model", "python"),
        ),
    )
    repeats: int = _by(
        "attacked",
        Option(
            "--grb-repeats",
            "N",
            "repeats of a case, each with its own training and attack seed (default: the suite's); "
            "a case that a default limit may fail has 6",
            type="int",
            tags=("python",),
        ),
    )
    gate: Gate = _by(
        "limits",
        Option(
            "--grb-max-drop",
            "FRACTION",
            "largest relative accuracy drop that passes, as 0.2 or 20%% (default: not "
            "clearly more than that of every reference model)",
            type="float",
            tags=("python",),
        ),
        Option(
            "--grb-min-clean",
            "FRACTION",
            "smallest clean accuracy that passes (default: 75%% of the reference GCN's)",
            type="float",
            tags=("python",),
        ),
        Option(
            "--grb-threshold",
            "PATTERN=FRACTION[ warn]",
            "largest drop for the cases that match; the last match wins; with the word warn, "
            "as in '*/tdgia = 30%% warn', a larger one is reported and the test passes",
            ini="grb_thresholds",
            type="linelist",
            repeatable=True,
            tags=("of attacks", "python"),
        ),
        Option(
            "--grb-strict-diagnostics",
            "",
            "fail a case whose attack may have been too weak for a conclusion "
            "(docs/explanation/diagnostics.md); by default this is only reported",
            type="bool",
            tags=("python",),
        ),
        Option(
            "--grb-inconclusive",
            "pass|fail",
            "result of a case whose comparison with the baseline is inconclusive (default: "
            "pass); fail asks the model to show that it is no worse",
            section="baselines",
        ),
    )
    expected_failures: tuple[ExpectedFailure, ...] = _by(
        "limits",
        Option(
            "--grb-expected-failure",
            "PATTERN: REASON",
            "report failures of the cases that match as expected (xfail), with this reason",
            ini="grb_expected_failures",
            type="linelist",
            repeatable=True,
            tags=("needs a model",),
        ),
    )
    comparison_models: ComparisonModels = _by(
        "ranks",
        Option(
            "--grb-rank-against",
            "published|zoo|BOARD.json|DEFENCE,...",
            "rank each model by weighted accuracy: on GRB's published leaderboard, on the "
            "measured one of the reference models (python -m grb_check leaderboard), on one "
            "in a file, or among these defences of the measured one",
            type="linelist",
            repeatable=True,
            tags=("needs a model", "of attacks"),
        ),
    )
    places: Places = _by(
        "data",
        Option(
            "--grb-data",
            "DIR",
            "directory to search for datasets, before the download directory "
            "($GRB_CHECK_DATA, or one in the user's cache)",
            type="linelist",
            repeatable=True,
            tags=("python",),
        ),
        Option(
            "--grb-download",
            "",
            "download datasets that are in none of the directories",
            type="bool",
            tags=("python",),
        ),
        Option(
            "",
            "[NAME=]URL",
            "URL to download from, in this order; {name} in it is replaced by the dataset's "
            "name, 'default' stands for the built-in list (also: $GRB_CHECK_SOURCES)",
            ini="grb_sources",
            type="linelist",
            repeatable=True,
            tags=("python",),
        ),
        Option(
            "--grb-split",
            "grb|given",
            "GRB's split by degree, or the one that comes with the dataset (default: grb for "
            "benchmark graphs; for your own data its masks if it has any, else grb); sets of "
            "graphs have the one that comes with them, else 80/20 at random, and refuse grb",
            tags=("python",),
        ),
        Option(
            "--grb-training",
            "inductive|transductive",
            "train models of nodes on the graph of the training nodes (default), or on the "
            "whole graph with the labels of these (the suites contrastive, "
            "contrastive-smoke and poisoning)",
            tags=("python",),
        ),
        Option(
            "--grb-features",
            "grb|rows|given",
            "features of nodes: GRB's normalisation (default for benchmark graphs), rows that "
            "sum to 1 (there in the suites contrastive and contrastive-smoke), or as they are "
            "given (default for your own data and for sets of graphs, which refuse grb)",
            tags=("python",),
        ),
    )
    store: StorePlace | None = _by(
        "where",
        Option(
            "--grb-store",
            "DIR|off",
            "directory of stored perturbations and other results; with ?mode=read at its end it "
            "is only read (default: $GRB_CHECK_STORE, else .grb_check in rootdir)",
            tags=("python",),
        ),
    )
    pack: Pack | None = _by(
        "where",
        Option(
            "--grb-pack",
            "FILE",
            "take all black-box perturbations from this file of python -m grb_check pack, "
            "and train no surrogate",
            tags=("of attacks", "python"),
        ),
    )
    device: str = _by(
        "where",
        Option(
            "--grb-device",
            "DEVICE",
            "torch device (default: auto, the first GPU or else the CPU)",
            tags=("python",),
        ),
    )
    jobs: int | None = _by(
        "where",
        Option(
            "--grb-jobs",
            "N|auto",
            "measure in N processes of this machine; auto: one for each GPU, or else for "
            "each core (default: in pytest's own process)",
            tags=("of attacks", "place", "python"),
        ),
    )
    timeout: float | None = _by(
        "where",
        Option(
            "--grb-timeout",
            "SECONDS",
            "end a task of --grb-jobs, all attacks on one trained model, that takes longer: its "
            "cases are lost (default: none)",
            type="float",
            tags=("of attacks", "place", "python"),
        ),
    )
    resume: bool = _by(
        "where",
        Option(
            "--grb-resume",
            "",
            "go on with an interrupted run: take what it has measured from the store",
            type="bool",
            tags=("of attacks", "place", "python"),
        ),
    )
    baseline: Baseline | None = _by(
        "baselines",
        Option(
            "--grb-baseline",
            "FILE",
            "compare with the baseline in this file, and fail cases that are clearly worse; "
            "if the file does not exist it is written, and the run fails so that it is "
            "committed; off for none",
            tags=("of attacks",),
        ),
        Option(
            "--grb-margin",
            "POINTS",
            "tolerated loss of attacked accuracy against the baseline, in percentage points "
            "(default: 2)",
            type="float",
        ),
    )
    base: Revision | None = _by(
        "baselines",
        Option(
            "--grb-base",
            "REV",
            "compare with the models as they are at this revision of git, as origin/main, a tag, "
            "or origin/main... for the merge base: the same cases, seeds and perturbations on "
            "both sides, without a file",
            tags=("of attacks",),
        ),
    )
    evidence: Path | None = _by(
        "failures",
        Option(
            "--grb-evidence",
            "DIR|off",
            "directory for the perturbations of failed cases, for python -m grb_check replay "
            "(default: .grb_check/evidence in rootdir)",
        ),
    )
    shrink: bool = _by(
        "failures",
        Option(
            "--grb-shrink",
            "",
            "reduce the perturbation of a failed case to a small one that still fails, and show it",
            type="bool",
        ),
    )
    shard: Shard | None = _by(
        "where",
        Option(
            "--grb-shard",
            "I/N",
            "run the I-th of N shards of the cases; python -m grb_check merge judges the "
            "shards together",
            tags=("needs a model", "of attacks"),
        ),
    )
    outputs: Mapping[str, Path] = _by(
        "reports",
        Option(
            "--grb-json",
            "PATH",
            "write the run record to this file: everything about every outcome",
        ),
        Option(
            "--grb-junit",
            "PATH",
            "write the leaderboard to this file as JUnit XML: one suite for each dataset, "
            "with ranks",
        ),
        Option(
            "--grb-html",
            "PATH",
            "write a report to this file, one HTML page that needs no other file",
        ),
        Option(
            "--grb-markdown",
            "PATH",
            "write a summary in Markdown to this file, as for a comment on a merge request; "
            "under GitHub Actions it is also added to the step's summary",
        ),
    )
    registered_datasets: Mapping[str, str]
    given: Mapping[str, str]
    origins: Mapping[str, str]

    @property
    def labels(self) -> tuple[str, ...]:
        """Model labels in case ids; one empty label if there is a single model."""
        return tuple(model.label for model in self.models) if len(self.models) > 1 else ("",)

    @property
    def label(self) -> str:
        """Label of the first model, which case ids of a single model lack; empty without one."""
        return self.models[0].label if self.models else ""

    def model(self, label: str) -> ModelSpec:
        """Return the model of a label; the first one for any other label."""
        return next((model for model in self.models if model.label == label), self.models[0])


OPTIONS: Final[tuple[Option, ...]] = tuple(
    option for attribute in fields(Settings) for option in attribute.metadata.get("options", ())
)


def describe_given(
    given: Mapping[str, str], origins: Mapping[str, str], sections: Collection[Section]
) -> list[tuple[str, str]]:
    """Return `max-drop: 0.2` and its origin for each option of these sections that was given."""
    return [
        (f"{name}: {text}" if (text := given[option.dest]) else name, origins.get(option.dest, ""))
        for option in OPTIONS
        if option.dest in given and option.section in sections
        for name in [option.dest.removeprefix("grb_").replace("_", "-")]
    ]


def tagged(tag: Tag) -> tuple[Option, ...]:
    """Return the options with a tag."""
    return tuple(option for option in OPTIONS if tag in option.tags)
