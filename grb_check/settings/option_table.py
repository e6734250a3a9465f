"""Options and their ini values: one definition for both. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

# Origins of values, and what stands for a value that is not given.
COMMAND_LINE: Final = "command line"
INI: Final = "ini"
DEFAULT: Final = "default"
MISSING: Final = object()

UPDATE_FLAG: Final = "--grb-update-baseline"
PIN_FLAG: Final = "--grb-pin"
# Options that say where and in which order a run is measured.
WHERE: Final = ("grb_jobs", "grb_executor", "grb_timeout", "grb_resume")
IniType = Literal["string", "linelist", "int", "float", "bool"]


@dataclass(frozen=True, kw_only=True)
class Option:
    """One setting: its flag, its ini value and its help.

    A setting without a flag is set in the ini file alone.
    """

    flag: str
    ini: str
    help: str
    metavar: str
    type: IniType = "string"
    repeatable: bool = False

    @property
    def dest(self) -> str:
        """Name of the value: `--grb-max-drop` is `grb_max_drop`."""
        return self.flag.lstrip("-").replace("-", "_") or self.ini


def _options(*rows: tuple[str, str, str, IniType, bool, str]) -> tuple[Option, ...]:
    return tuple(
        Option(flag=flag, ini=ini, metavar=metavar, type=type_, repeatable=many, help=text)
        for flag, ini, metavar, type_, many, text in rows
    )


OPTIONS: Final = _options(
    (
        "--grb-model",
        "grb_model",
        "[LABEL=]PKG.MODULE:ATTR",
        "string",
        True,
        "factory of the model to attack, or a name of --grb-list=models, or zoo for all that learn "
        "with labels; repeat it to compare several",
    ),
    (
        "--grb-model-args",
        "grb_model_args",
        "NAME=VALUE,...",
        "string",
        True,
        "keyword arguments for the factory; once for all models, or once for each in their order",
    ),
    (
        "--grb-suite",
        "grb_suite",
        "NAME",
        "string",
        False,
        "cases to run if nothing else is selected: a name of --grb-list=suites (default: smoke)",
    ),
    (
        "--grb-dataset",
        "grb_datasets",
        "NAME|PATH|pyg:CLASS/NAME|PKG.MODULE:FUNCTION",
        "linelist",
        True,
        "dataset to run on, a graph or a set of graphs: a known name (python -m grb_check "
        "datasets), a directory or zip in GRB's four-file format or TUDataset's layout, an npz or "
        "pt file, a class of PyG, or a function of yours; NAME=... names it",
    ),
    (
        "--grb-difficulty",
        "grb_difficulties",
        "easy|medium|hard|full",
        "linelist",
        True,
        "test nodes to attack, by degree",
    ),
    (
        "--grb-attack",
        "grb_attacks",
        "[SCENARIO/]NAME[+MODIFIER...]|PATTERN|PKG.MODULE:ATTR",
        "linelist",
        True,
        "attack to run; modifiers are hao, white-box, black-box, ensemble, budget=SHARE, "
        "local=SHARE or SETTING=VALUE, as in pgd+white-box+iterations=200; worst is the strongest "
        "of the others of its scenario; a pattern such as 'injection/*' selects those of the "
        "suite; PKG.MODULE:ATTR is an attack of yours",
    ),
    (
        "--grb-budget",
        "grb_budgets",
        "SHARE",
        "linelist",
        True,
        "run each case at each of these budgets, as 0.01,0.05,0.1 or 5%%: the share of edges "
        "and of targets' features that may change, or injected nodes for each target (default:"
        " GRB's)",
    ),
    (
        "--grb-case",
        "grb_cases",
        "PATTERN",
        "linelist",
        True,
        "keep the cases whose id (dataset/difficulty/scenario/attack) matches the shell pattern",
    ),
    (
        "--grb-repeats",
        "grb_repeats",
        "N",
        "int",
        False,
        "repeats of a case, each with its own training and attack seed (default: the suite's)",
    ),
    (
        "--grb-max-drop",
        "grb_max_drop",
        "FRACTION",
        "float",
        False,
        "largest relative accuracy drop that passes, as 0.2 or 20%% (default: not clearly more"
        " than that of every reference model)",
    ),
    (
        "--grb-min-clean",
        "grb_min_clean",
        "FRACTION",
        "float",
        False,
        "smallest clean accuracy that passes (default: 75%% of the reference GCN's)",
    ),
    (
        "--grb-threshold",
        "grb_thresholds",
        "PATTERN=FRACTION[ warn]",
        "linelist",
        True,
        "largest drop for the cases that match; the last match wins; with the word warn, as in "
        "'*/tdgia = 30%% warn', a larger one is reported and the test passes",
    ),
    (
        "--grb-strict-limits",
        "grb_strict_limits",
        "",
        "bool",
        False,
        "fail a case whose default limit judges nothing, because a model that predicts the "
        "majority class under attack would pass it; by default this is only reported",
    ),
    (
        "--grb-strict-diagnostics",
        "grb_strict_diagnostics",
        "",
        "bool",
        False,
        "fail a case whose attack may have been too weak for a conclusion "
        "(docs/explanation/diagnostics.md); by default this is only reported",
    ),
    (
        "--grb-expected-failure",
        "grb_expected_failures",
        "PATTERN: REASON",
        "linelist",
        True,
        "report failures of the cases that match as expected (xfail), with this reason",
    ),
    (
        "--grb-rank-against",
        "grb_rank_against",
        "published|zoo|BOARD.json|DEFENCE,...",
        "linelist",
        True,
        "rank each model by weighted accuracy: on GRB's published leaderboard, on the measured"
        " one of the reference models (python -m grb_check leaderboard), on one in a file, or "
        "among these defences of the measured one",
    ),
    (
        "--grb-min-rank",
        "grb_min_rank",
        "[MODEL@]DATASET/DIFFICULTY=RANK",
        "linelist",
        True,
        "fail if a model does not reach this rank; shell wildcards are allowed and the last "
        "match wins; without --grb-rank-against it is the rank among the run's models",
    ),
    (
        "--grb-data",
        "grb_data",
        "DIR",
        "linelist",
        True,
        "directory to search for datasets, before the download directory ($GRB_CHECK_DATA, or "
        "one in the user's cache)",
    ),
    (
        "--grb-download",
        "grb_download",
        "",
        "bool",
        False,
        "download datasets that are in none of the directories",
    ),
    (
        "",
        "grb_sources",
        "[NAME=]URL",
        "linelist",
        True,
        "URL to download from, in this order; {name} in it is replaced by the dataset's name, "
        "'default' stands for the built-in list (also: $GRB_CHECK_SOURCES)",
    ),
    (
        "--grb-split",
        "grb_split",
        "grb|given",
        "string",
        False,
        "GRB's split by degree (default), or the one that comes with the dataset; sets of graphs "
        "have the one that comes with them, else 80/20 at random, and refuse grb",
    ),
    (
        "--grb-training",
        "grb_training",
        "inductive|transductive",
        "string",
        False,
        "train models of nodes on the graph of the training nodes (default), or on the whole "
        "graph with the labels of these (the suites contrastive and contrastive-smoke)",
    ),
    (
        "--grb-features",
        "grb_features",
        "grb|rows",
        "string",
        False,
        "features of nodes: GRB's normalisation (default), or raw features whose rows sum to 1"
        " (the suites contrastive and contrastive-smoke); sets of graphs have raw features and "
        "refuse grb",
    ),
    (
        "--grb-store",
        "grb_store",
        "DIR|URL|off",
        "string",
        False,
        "directory or URL, such as s3://BUCKET/PREFIX, of stored perturbations and other results; "
        "with ?mode=read at its end it is only read (default: $GRB_CHECK_STORE, else .grb_check "
        "in rootdir)",
    ),
    (
        "--grb-pack",
        "grb_pack",
        "FILE",
        "string",
        False,
        "take all black-box perturbations from this file of python -m grb_check pack, and train no "
        "surrogate",
    ),
    (
        "--grb-device",
        "grb_device",
        "DEVICE",
        "string",
        False,
        "torch device (default: auto, the first GPU or else the CPU)",
    ),
    (
        "--grb-jobs",
        "grb_jobs",
        "N|auto",
        "string",
        False,
        "measure in N processes of this machine; auto: one for each GPU, or else for each core "
        "(default: in pytest's own process)",
    ),
    (
        "--grb-executor",
        "grb_executor",
        "dask[:ADDRESS]|PKG.MODULE:FACTORY",
        "string",
        False,
        "measure on a cluster: of Dask, by default one on this machine, or an executor of "
        "concurrent.futures that a function of yours returns",
    ),
    (
        "--grb-timeout",
        "grb_timeout",
        "SECONDS",
        "float",
        False,
        "end a task of --grb-jobs or --grb-executor, all attacks on one trained model, that takes "
        "longer: its cases are lost (default: none)",
    ),
    (
        "--grb-resume",
        "grb_resume",
        "",
        "bool",
        False,
        "go on with an interrupted run: take what it has measured from the store",
    ),
    (
        "--grb-baseline",
        "grb_baseline",
        "FILE",
        "string",
        False,
        "compare with the baseline in this file, and fail cases that are clearly worse; if the"
        " file does not exist it is written, and the run fails so that it is committed",
    ),
    (
        "--grb-margin",
        "grb_margin",
        "POINTS",
        "float",
        False,
        "tolerated loss of attacked accuracy against the baseline, in percentage points "
        "(default: 2)",
    ),
    (
        "--grb-inconclusive",
        "grb_inconclusive",
        "pass|fail",
        "string",
        False,
        "result of a case whose comparison with the baseline is inconclusive (default: pass); "
        "fail asks the model to show that it is no worse",
    ),
    (
        "--grb-evidence",
        "grb_evidence",
        "DIR|off",
        "string",
        False,
        "directory for the perturbations of failed cases, for python -m grb_check replay "
        "(default: .grb_check/evidence in rootdir)",
    ),
    (
        "--grb-shrink",
        "grb_shrink",
        "",
        "bool",
        False,
        "reduce the perturbation of a failed case to a small one that still fails, and show it",
    ),
    (
        "--grb-shard",
        "grb_shard",
        "I/N",
        "string",
        False,
        "run the I-th of N shards of the cases; python -m grb_check merge judges the shards "
        "together",
    ),
    (
        "--grb-json",
        "grb_json",
        "PATH",
        "string",
        False,
        "write the run record to this file: everything about every outcome",
    ),
    (
        "--grb-junit",
        "grb_junit",
        "PATH",
        "string",
        False,
        "write the leaderboard to this file as JUnit XML: one suite for each dataset, with ranks",
    ),
    (
        "--grb-html",
        "grb_html",
        "PATH",
        "string",
        False,
        "write a report to this file, one HTML page that needs no other file",
    ),
    (
        "--grb-markdown",
        "grb_markdown",
        "PATH",
        "string",
        False,
        "write a summary in Markdown to this file, as for a comment on a merge request; under "
        "GitHub Actions it is also added to the step's summary",
    ),
)
