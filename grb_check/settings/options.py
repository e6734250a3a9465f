"""The table of options.

An option is declared, described and, if its value depends on no other option, parsed here and
nowhere else: pytest's options and ini values, the pages of the documentation, `grb_check.run`, the
header of a run and the settings of the record follow. Imports nothing heavy: every run of pytest
loads this module.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from grb_check.settings import parsers
from grb_check.settings.parsers import Parser

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
        parse: from the raw values and `dest` to the value; None if that depends on other options,
            see `settings.reading`.
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
    parse: Parser | None = None
    dest: str = field(init=False)

    def __post_init__(self) -> None:
        dest = self.flag.lstrip("-").replace("-", "_") or self.ini
        object.__setattr__(self, "dest", dest)
        object.__setattr__(self, "ini", self.ini or dest)


OPTIONS: Final[tuple[Option, ...]] = (
    Option(
        "--grb-model",
        "[LABEL=]PKG.MODULE:ATTR",
        "factory of the model to attack, or a name of --grb-list=models, or zoo for all "
        "that learn with labels; repeat it to compare several",
        repeatable=True,
        section="attacked",
    ),
    Option(
        "--grb-model-args",
        "NAME=VALUE,...",
        "keyword arguments for the factory; once for all models, or once for each in their order",
        repeatable=True,
        tags=("python",),
        section="attacked",
    ),
    Option(
        "--grb-suite",
        "NAME",
        "cases to run if nothing else is selected: a name of --grb-list=suites (default: smoke)",
        tags=("selects", "needs a model", "python"),
        section="attacked",
    ),
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
        section="attacked",
    ),
    Option(
        "--grb-difficulty",
        "easy|medium|hard|full",
        "test nodes to attack, by degree",
        ini="grb_difficulties",
        type="linelist",
        repeatable=True,
        tags=("selects", "needs a model", "python"),
        section="attacked",
    ),
    Option(
        "--grb-attack",
        "[SCENARIO/]NAME[+MODIFIER...]|PATTERN|PKG.MODULE:ATTR",
        "attack to run; modifiers are hao, white-box, black-box, ensemble, budget=SHARE, "
        "local=SHARE, gang=SIZE or SETTING=VALUE, as in pgd+white-box+iterations=200; worst is the "
        "strongest of the others of its scenario; a pattern such as 'injection/*' "
        "selects those of the suite; PKG.MODULE:ATTR is an attack of yours",
        ini="grb_attacks",
        type="linelist",
        repeatable=True,
        tags=("selects", "needs a model", "of attacks", "python"),
        section="attacked",
    ),
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
        parse=parsers.budgets,
        section="attacked",
    ),
    Option(
        "--grb-case",
        "PATTERN",
        "keep the cases whose id (dataset/difficulty/scenario/attack) matches the shell pattern",
        ini="grb_cases",
        type="linelist",
        repeatable=True,
        tags=("selects", "needs a model", "python"),
        section="attacked",
    ),
    Option(
        "--grb-repeats",
        "N",
        "repeats of a case, each with its own training and attack seed (default: the suite's); "
        "a case that a default limit may fail has 6",
        type="int",
        tags=("python",),
        section="attacked",
    ),
    Option(
        "--grb-max-drop",
        "FRACTION",
        "largest relative accuracy drop that passes, as 0.2 or 20%% (default: not "
        "clearly more than that of every reference model)",
        type="float",
        tags=("python",),
        parse=parsers.fraction,
        section="limits",
    ),
    Option(
        "--grb-min-clean",
        "FRACTION",
        "smallest clean accuracy that passes (default: 75%% of the reference GCN's)",
        type="float",
        tags=("python",),
        parse=parsers.fraction,
        section="limits",
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
        section="limits",
    ),
    Option(
        "--grb-strict-diagnostics",
        "",
        "fail a case whose attack may have been too weak for a conclusion "
        "(docs/explanation/diagnostics.md); by default this is only reported",
        type="bool",
        tags=("python",),
        parse=parsers.switch,
        section="limits",
    ),
    Option(
        "--grb-inconclusive",
        "pass|fail",
        "result of a case whose comparison with the base or baseline, which it needs, is "
        "undecided (default: pass); fail asks the model to show that it is no worse",
        parse=parsers.verdict,
        section="baselines",
    ),
    Option(
        "--grb-expected-failure",
        "PATTERN: REASON",
        "report failures of the cases that match as expected (xfail), with this reason; in the "
        "suite conformance, of properties by name",
        ini="grb_expected_failures",
        type="linelist",
        repeatable=True,
        tags=("needs a model",),
        section="limits",
    ),
    Option(
        "--grb-rank-against",
        "published|zoo|BOARD.json|DEFENCE,...",
        "rank each model by weighted accuracy: on GRB's published leaderboard, on the "
        "measured one of the reference models (python -m grb_check leaderboard), on one "
        "in a file, or among these defences of the measured one",
        type="linelist",
        repeatable=True,
        tags=("needs a model", "of attacks"),
        parse=parsers.comparison_models,
        section="ranks",
    ),
    Option(
        "--grb-data",
        "DIR",
        "directory to search for datasets, before the download directory "
        "($GRB_CHECK_DATA, or one in the user's cache)",
        type="linelist",
        repeatable=True,
        tags=("python",),
        parse=parsers.folders,
        section="data",
    ),
    Option(
        "--grb-download",
        "",
        "download datasets that are in none of the directories",
        type="bool",
        tags=("python",),
        parse=parsers.switch,
        section="data",
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
        parse=parsers.download_sources,
        section="data",
    ),
    Option(
        "--grb-split",
        "grb|given",
        "GRB's split by degree, or the one that comes with the dataset (default: grb for "
        "benchmark graphs; for your own data its masks if it has any, else grb); sets of "
        "graphs have the one that comes with them, else 80/20 at random, and refuse grb",
        tags=("python",),
        section="data",
    ),
    Option(
        "--grb-training",
        "inductive|transductive",
        "train models of nodes on the graph of the training nodes (default), or on the "
        "whole graph with the labels of these (the suites contrastive, "
        "contrastive-smoke and poisoning)",
        tags=("python",),
        section="data",
    ),
    Option(
        "--grb-features",
        "grb|rows|given",
        "features of nodes: GRB's normalisation (default for benchmark graphs), rows that "
        "sum to 1 (there in the suites contrastive and contrastive-smoke), or as they are "
        "given (default for your own data and for sets of graphs, which refuse grb)",
        tags=("python",),
        section="data",
    ),
    Option(
        "--grb-metric",
        "accuracy|balanced|recall@SHARE",
        "what figures, limits and comparisons are of: accuracy; balanced accuracy, the mean of "
        "the accuracies of all classes; or the recall of one class, where SHARE of the validation "
        "nodes of others are false alarms (default: accuracy, or balanced where one class has more "
        "than 70 % of the test nodes, or graphs; recall@0.01 in the suite fraud)",
        tags=("python",),
        section="data",
    ),
    Option(
        "--grb-positive",
        "CLASS",
        "the class whose recall it is, as a number from 0 (default: 1 of two classes)",
        tags=("python",),
        section="data",
    ),
    Option(
        "--grb-store",
        "DIR|off",
        "directory of stored perturbations and other results; with ?mode=read at its end it "
        "is only read (default: $GRB_CHECK_STORE, else .grb_check in rootdir)",
        tags=("python",),
        parse=parsers.store,
        section="where",
    ),
    Option(
        "--grb-pack",
        "FILE",
        "take all black-box perturbations from this file of python -m grb_check pack, "
        "and train no surrogate",
        tags=("of attacks", "python"),
        parse=parsers.path,
        section="where",
    ),
    Option(
        "--grb-device",
        "DEVICE",
        "torch device (default: auto, the first GPU or else the CPU)",
        tags=("python",),
        parse=parsers.device,
        section="where",
    ),
    Option(
        "--grb-jobs",
        "N|auto",
        "measure in N processes of this machine; auto: one for each GPU, or else for "
        "each core (default: in pytest's own process); with --grb-executor, N tasks at a time",
        tags=("of attacks", "place", "python"),
        parse=parsers.jobs,
        section="where",
    ),
    Option(
        "--grb-executor",
        "PKG.MODULE:FUNCTION",
        "measure in the workers of the concurrent.futures.Executor that this function makes, as "
        "of Dask or MPI, see docs/how-to/executors.md",
        tags=("of attacks", "place", "python"),
        parse=parsers.import_path,
        section="where",
    ),
    Option(
        "--grb-timeout",
        "SECONDS",
        "end a task of --grb-jobs or --grb-executor, all attacks on one trained model, that takes "
        "longer: its cases are lost (default: none)",
        type="float",
        tags=("of attacks", "place", "python"),
        parse=parsers.seconds,
        section="where",
    ),
    Option(
        "--grb-resume",
        "",
        "go on with an interrupted run: take what it has measured from the store",
        type="bool",
        tags=("of attacks", "place", "python"),
        parse=parsers.switch,
        section="where",
    ),
    Option(
        "--grb-baseline",
        "FILE",
        "compare with the baseline in this file, and fail cases that are clearly worse; "
        "if the file does not exist it is written, and the run fails so that it is "
        "committed; off for none",
        tags=("of attacks",),
        parse=parsers.output_or_off,
        section="baselines",
    ),
    Option(
        "--grb-margin",
        "POINTS",
        "tolerated loss of attacked accuracy against the base or baseline, which it needs, in "
        "percentage points (default: 2)",
        type="float",
        parse=parsers.points,
        section="baselines",
    ),
    Option(
        "--grb-base",
        "REV",
        "compare with the models as they are at this revision of git, as origin/main, a tag, "
        "or origin/main... for the merge base: the same cases, seeds and perturbations on "
        "both sides, without a file",
        tags=("of attacks",),
        parse=parsers.revision,
        section="baselines",
    ),
    Option(
        "--grb-evidence",
        "DIR|off",
        "directory for the perturbations of failed cases, for python -m grb_check replay "
        "(default: .grb_check/evidence in rootdir)",
        parse=parsers.evidence,
        section="failures",
    ),
    Option(
        "--grb-shrink",
        "",
        "reduce the perturbation of a failed case to a small one that still fails, and show it; "
        "needs a directory of evidence",
        type="bool",
        parse=parsers.switch,
        section="failures",
    ),
    Option(
        "--grb-shard",
        "I/N",
        "run the I-th of N shards of the cases; python -m grb_check merge judges the "
        "shards together",
        tags=("needs a model", "of attacks"),
        parse=parsers.shard,
        section="where",
    ),
    Option(
        "--grb-json",
        "PATH",
        "write the run record to this file: everything about every outcome",
        parse=parsers.output,
        section="reports",
    ),
    Option(
        "--grb-junit",
        "PATH",
        "write the leaderboard to this file as JUnit XML: one suite for each dataset, with ranks",
        parse=parsers.output,
        section="reports",
    ),
    Option(
        "--grb-html",
        "PATH",
        "write a report to this file, one HTML page that needs no other file",
        parse=parsers.output,
        section="reports",
    ),
    Option(
        "--grb-markdown",
        "PATH",
        "write a summary in Markdown to this file, as for a comment on a merge request; "
        "under GitHub Actions it is also added to the step's summary",
        parse=parsers.output,
        section="reports",
    ),
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
