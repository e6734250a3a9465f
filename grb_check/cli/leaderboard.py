"""Attack many models alike and rank them; goes on where it was interrupted."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from grb_check import datasets
from grb_check.cases.attack_registry import AttackRegistry
from grb_check.cli import places
from grb_check.cli.console import complain, say, tell
from grb_check.cli.exit_codes import FAILED, INTERRUPTED, OK
from grb_check.datasets.places import expanded
from grb_check.errors import count
from grb_check.files.outputs import check_folder
from grb_check.ranking.boards.files import FOLDER
from grb_check.ranking.boards.plan import plan
from grb_check.ranking.boards.saving import check_files, refuse_smaller, save
from grb_check.settings.reading import STORE_VARIABLE
from grb_check.store.place import is_url, open_store, place_of


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    places.add_options(parser)
    places.add_split_option(parser)

    def add(flag: str, metavar: str, help_: str, **rest: Any) -> None:
        parser.add_argument(flag, metavar=metavar, help=help_, **rest)

    several = {"action": "append", "default": []}
    add("--dataset", "DATASET", places.DATASET, required=True)
    add(
        "--models",
        "NAME,...",
        "reference models by name or title, and your own as [TITLE=]PKG.MODULE:ATTR; "
        "default: all reference models",
        **several,
    )
    add("--attacks", "NAME,...", "default: those of GRB's leaderboards", **several)
    add("--difficulties", "LEVEL,...", "default: easy,medium,hard,full", **several)
    add("--repeats", "N", "trainings of each model, each of them attacked (default: 3)", default=3)
    add("--device", "DEVICE", "a torch device, or auto (default)", default="auto")
    add(
        "--store",
        "DIR|URL",
        "folder or URL of finished cases and of perturbations; default: $GRB_CHECK_STORE, else in "
        "the data folder",
    )
    add("--out", "DIR", "for NAME.json, NAME.md and NAME.csv; default: in the data folder")
    add("--name", "NAME", "of these files; default: the name of the dataset")
    fresh = "measure again what earlier runs have measured, as after a change of a model's code"
    parser.add_argument("--fresh", action="store_true", help=fresh)


def run(options: argparse.Namespace) -> int:
    """Measure the board and write its files; 1 if a case or a file failed, 130 after Ctrl-C."""
    searched = places.places_of(options)
    registry = AttackRegistry()
    wanted = plan(
        datasets.find(options.dataset, searched),
        registry=registry,
        models=options.models,
        attacks=options.attacks,
        difficulties=options.difficulties,
        repeats=options.repeats,
        name=options.name or "",
    )
    folder = expanded(options.out or searched.home / FOLDER)
    check_files(wanted.name, folder)
    refuse_smaller(wanted, folder)
    given = options.store or os.environ.get(STORE_VARIABLE)
    place = place_of(given or searched.home / "store", "--store")
    if not is_url(place.location):
        check_folder("--store", Path(place.location))
    from grb_check.ranking.boards.making import Maker  # imports torch, after all checks

    store = open_store(place)
    maker = Maker(wanted, store=store, device=options.device, say=tell, attacks=registry.own)
    if options.fresh:
        maker.forget()
    try:
        made = maker.make()
    except KeyboardInterrupt:
        tell(
            f"interrupted; kept in {place.location}: {maker.done} of {count(maker.total, 'case')}, "
            f"and the same command goes on from there"
        )
        return INTERRUPTED
    saved = save(made.board, folder)
    for path, why in saved.items():
        if why:
            complain(why)
        else:
            say(str(path))
    return FAILED if made.failed or any(saved.values()) else OK
