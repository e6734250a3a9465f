"""`python -m grb_check`: datasets and leaderboards, outside pytest."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from grb_check import __version__, datasets
from grb_check.cli import merge, replay, report
from grb_check.datasets import Places, Source
from grb_check.datasets.catalogue import find_original
from grb_check.datasets.download.sources import named_sources
from grb_check.datasets.places import HOME_VARIABLE, SPLIT_RULES, expanded
from grb_check.errors import GrbCheckError, UsageError
from grb_check.evaluation.store import Store, StoreWarning

Command = Callable[[argparse.Namespace, Places], int]

FAILED: Final = 1
DATASET: Final = "a name of the list, a path, pyg:CLASS/NAME, or pkg.module:function"
OTHER_NAMES: Final = {
    ", or the option --grb-download": "",
    " (ini: grb_sources)": "",
    "--grb-sources": "--source",
    "--grb-": "--",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: of the command line; None for this process's.

    Returns:
        0, or 1 where something is unknown, could not be had or is not what it should be. What
        argparse refuses ends the process with 2.
    """
    options = _parser().parse_args(arguments)
    with _plain_warnings():
        try:
            if options.run is not None:
                code: int = options.run(options)
                return code
            return COMMANDS[options.command](options, _places(options))
        except GrbCheckError as error:
            _complain(error)
            return FAILED
        except BrokenPipeError:  # the reader of a pipe has seen enough
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - or the interpreter complains at exit
            return FAILED
        except KeyboardInterrupt:
            sys.stderr.write("grb_check: interrupted; what was downloaded is kept\n")
            return FAILED


def list_datasets(options: argparse.Namespace, places: Places) -> int:
    """Every known dataset, and where it is or would come from."""
    from grb_check.session.listing import dataset_lines

    _say(*dataset_lines(places))
    return 0


def info(options: argparse.Namespace, places: Places) -> int:
    """The figures of one dataset beside the published ones."""
    from grb_check.cli.dataset_report import graph_set_statistics, statistics
    from grb_check.datasets.lock import LOCK_FILE, recorded

    source = datasets.find(options.dataset, places)
    if source.of_graphs:
        _say(*graph_set_statistics(datasets.load_graph_set(source)))
    else:
        _say(*statistics(datasets.load(source)))
    if source.format.files(source) and recorded(source.lock_key, places.home):
        _say("", f"checksums: as in {places.home / LOCK_FILE}")
    return 0


def fetch(options: argparse.Namespace, places: Places) -> int:
    """Make sure that datasets are on this machine and what their names promise."""
    result = 0
    for spec in options.datasets:
        try:
            _say(f"{spec}: {_fetched(find_original(spec, replace(places, download=True)))}")
        except GrbCheckError as error:
            _complain(error)
            result = FAILED
    return result


def lock(options: argparse.Namespace, places: Places) -> int:
    """Take the files of a dataset, as they are now, for what they should be."""
    from grb_check.datasets.loading import accept
    from grb_check.datasets.lock import LOCK_FILE

    key = accept(datasets.find(options.dataset, places))
    _say(f"{key}: checksums recorded in {places.home / LOCK_FILE}")
    return 0


def leaderboard(options: argparse.Namespace, places: Places) -> int:
    """Attack many models alike and rank them; goes on where it was interrupted."""
    from grb_check.cases.attack_registry import Roster
    from grb_check.ranking.boards.files import FOLDER
    from grb_check.ranking.boards.plan import plan
    from grb_check.ranking.boards.saving import prepare, refuse_smaller, save
    from grb_check.settings.settings import STORE_VARIABLE

    roster = Roster()
    wanted = plan(
        datasets.find(options.dataset, places),
        roster=roster,
        models=options.models,
        attacks=options.attacks,
        difficulties=options.difficulties,
        repeats=options.repeats,
        name=options.name,
    )
    folder = prepare("--out", expanded(options.out or places.home / FOLDER))
    refuse_smaller(wanted, folder)
    given = options.store or os.environ.get(STORE_VARIABLE)
    store = prepare("--store", expanded(given or places.home / "store"))
    from grb_check.ranking.boards.making import Maker  # loads torch

    maker = Maker(wanted, store=Store(store), device=options.device, say=_note, attacks=roster.own)
    if options.fresh:
        maker.forget()
    try:
        made = maker.make()
    except KeyboardInterrupt:
        _note(
            f"interrupted; {maker.done} of {maker.total} cases are kept in {store}, and the same "
            f"command goes on from there"
        )
        return FAILED
    for path in save(made.board, folder):
        _say(str(path))
    return FAILED if made.failed else 0


COMMANDS: Final[Mapping[str, Command]] = {
    "datasets": list_datasets,
    "info": info,
    "fetch": fetch,
    "lock": lock,
    "leaderboard": leaderboard,
}


def _fetched(source: Source) -> str:
    from grb_check.datasets.published import published

    if source.of_graphs:
        graphs = datasets.load_graph_set(source)
        return f"{graphs.num_graphs:,} graphs, {graphs.origin}"
    dataset = datasets.load(source)
    is_published = published(dataset.name) is not None
    figures = f"{dataset.num_nodes:,} nodes, {dataset.num_edges:,} edges"
    agrees = ", as published" if is_published else ""
    return f"{figures}{agrees}; {dataset.origin}"


def _places(options: argparse.Namespace) -> Places:
    given = tuple(map(expanded, options.data))
    for folder in given:
        if not folder.is_dir():
            raise UsageError(f"--data: {str(folder)!r} is no folder")
    places = Places(folders=given, sources=named_sources(options.source or None))
    home = expanded(options.into) if options.into else places.home
    if home.exists() and not home.is_dir():
        raise UsageError(f"the data folder {str(home)!r} is no folder")
    return replace(places, home=home, split=options.split)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m grb_check",
        description="Datasets and leaderboards of grb_check.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"grb_check {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--data", metavar="DIR", action="append", default=[], help="folder to look in; repeatable"
    )
    common.add_argument(
        "--into",
        metavar="DIR",
        help=f"folder of downloads and checksums (default: ${HOME_VARIABLE}, else in the cache)",
    )
    common.add_argument(
        "--source",
        metavar="[NAME=]URL",
        action="append",
        default=[],
        help="where to download from; {name} in it is replaced, 'default' is the built-in list",
    )
    for name, command in COMMANDS.items():
        text = (command.__doc__ or "").strip()
        sub = commands.add_parser(name, parents=[common], help=text, description=text)
        if name == "fetch":
            sub.add_argument("datasets", nargs="+", metavar="DATASET", help=DATASET)
        elif name in ("info", "lock"):
            sub.add_argument("dataset", metavar="DATASET", help=DATASET)
        if name in ("info", "leaderboard"):
            help_ = "GRB's split by degree, or the one that the dataset brings along"
            sub.add_argument("--split", choices=SPLIT_RULES, help=help_)
        if name == "leaderboard":
            _add_leaderboard_options(sub)
        sub.set_defaults(split="grb", run=None)
    for module in (report, merge, replay):
        name = module.__name__.rpartition(".")[2]
        first = (module.__doc__ or "").partition("\n")[0]
        sub = commands.add_parser(name, help=first, description=module.__doc__)
        module.add_options(sub)
        sub.set_defaults(run=module.run)
    return parser


def _add_leaderboard_options(parser: argparse.ArgumentParser) -> None:
    def add(flag: str, metavar: str, help_: str, **rest: Any) -> None:
        parser.add_argument(flag, metavar=metavar, help=help_, **rest)

    several = {"action": "append", "default": []}
    add("--dataset", "DATASET", DATASET, required=True)
    add(
        "--models",
        "NAME,...",
        "reference models by name or title, and your own as [TITLE=]PKG.MODULE:ATTR; "
        "default: all reference models",
        **several,
    )
    add("--attacks", "NAME,...", "default: those of GRB's leaderboards", **several)
    add("--difficulties", "LEVEL,...", "default: easy,medium,hard,full", **several)
    add("--repeats", "N", "trainings of each model, each attacked anew (default: 3)", default=3)
    add("--device", "DEVICE", "a torch device, or auto (default)", default="auto")
    add(
        "--store",
        "DIR",
        "where results are kept as they come, and perturbations; default: $GRB_CHECK_STORE, else "
        "in the data folder",
    )
    add("--out", "DIR", "for NAME.json, NAME.md and NAME.csv; default: in the data folder")
    add("--name", "NAME", "of these files; default: the name of the dataset", default="")
    fresh = "measure anew what earlier runs have measured, say after a change of a model's code"
    parser.add_argument("--fresh", action="store_true", help=fresh)


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Notices on stderr without source lines; what libraries warn of at import is theirs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", datasets.DataNotice)
        warnings.simplefilter("always", StoreWarning)
        warnings.showwarning = _show
        yield


def _show(message: Warning | str, *_: object, **__: object) -> None:
    sys.stderr.write(f"note: {_in_own_words(message)}\n")


def _complain(error: GrbCheckError) -> None:
    """Messages speak of pytest's options; here they have other names."""
    sys.stderr.write(f"grb_check: {_in_own_words(error)}\n")


def _in_own_words(message: object) -> str:
    text = str(message)
    for theirs, ours in OTHER_NAMES.items():
        text = text.replace(theirs, ours)
    return text


def _note(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _say(*lines: str) -> None:
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
