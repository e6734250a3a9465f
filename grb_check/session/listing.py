"""The lists of `--grb-list`: models, attacks, datasets, suites and leaderboards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib.resources import as_file, files
from pathlib import Path

from grb_check.attacks.names import BUDGET, PRESETS, WORST, has_setting
from grb_check.attacks.registry import attack_names, load_attack
from grb_check.attacks.scenarios import POISONING, SCENARIOS
from grb_check.cases.suites import SUITES
from grb_check.datasets import Places
from grb_check.datasets.listing import entries
from grb_check.datasets.published import SIZES
from grb_check.errors import DataError, choose
from grb_check.models.zoo import EVERY
from grb_check.ranking.boards.board import Board, not_measured
from grb_check.ranking.boards.files import FOLDER, read_board
from grb_check.ranking.boards.published_board import published_board, published_datasets
from grb_check.reports.plain import columns
from grb_check.settings.pytest_options import LIST_FLAG, LISTS
from grb_check.settings.registered_names import RegisteredNames, RegisteredTarget


def listing(what: str, places: Callable[[], Places], names: RegisteredNames) -> list[str]:
    """Return the lines of one list.

    Args:
        what: one of `LISTS`; empty for these themselves.
        places: returns where datasets and leaderboards are.
        names: that plugins registered.

    Raises:
        UsageError: there is no such list, or a folder is not a directory.
    """
    if not what:
        return columns([(f"{LIST_FLAG}={name}", about) for name, about in LISTS.items()])
    lists: dict[str, Callable[[], list[str]]] = {
        "models": lambda: [*model_lines(), *_registered(names.models)],
        "attacks": lambda: [*attack_lines(), *_registered(names.attacks)],
        "datasets": lambda: [*dataset_lines(places()), *_registered(names.datasets)],
        "suites": lambda: suite_lines(names),
        "leaderboards": lambda: leaderboard_lines(places()),
    }
    return lists[choose(f"list of {LIST_FLAG}", what, tuple(lists))]()


def model_lines() -> list[str]:
    """Return the reference models: name, title in the papers' tables, description."""
    rows = [
        ("name", "title", ""),
        *((model.name, model.title, model.about) for model in EVERY),
    ]
    return [
        *columns(rows),
        "",
        "--grb-model=NAME, or your own pkg.module:attr; zoo: all that learn with labels",
    ]


def attack_lines() -> list[str]:
    """Return the built-in attacks with their settings, and the modifiers that attacks share.

    Loads the attacks, and torch with them, because settings are fields of their classes.
    """
    rows = [("attack", "knowledge", "")]
    settings = [("settings", "")]
    for scenario, name in attack_names():
        attack = load_attack(scenario, name)
        about = (type(attack).__doc__ or "").splitlines()[0]
        rows.append((f"{scenario}/{name}", attack.knowledge, about))
        setting_names = [setting for setting in vars(attack) if has_setting(attack, setting)]
        settings.append((f"{scenario}/{name}", ", ".join(setting_names) or "-"))
    rows += [
        (f"{scenario}/{WORST}", "", "The strongest of the other attacks of the scenario.")
        for scenario in SCENARIOS
    ]
    replayed = "Another attack, before the model is trained."
    rows.append((f"{POISONING}/NAME", "black-box", replayed))
    presets = [(f"+{name}", f"{setting} = {value}") for name, (setting, value) in PRESETS.items()]
    presets.append((f"+{BUDGET}=SHARE", "what the attack may do; every attack has it"))
    return [
        *columns(rows),
        "",
        *columns(settings),
        "",
        "modifiers, as in --grb-attack=pgd+white-box+iterations=200 (SETTING=VALUE for each of its "
        "settings):",
        *(f"  {line}" for line in columns(presets)),
    ]


def dataset_lines(places: Places) -> list[str]:
    """Return the known datasets with their sizes, and where they are or would come from."""
    rows = [
        (entry.name, *(getattr(entry, figure) for figure in SIZES), entry.state)
        for entry in entries(places)
    ]
    return [
        *columns([("name", *SIZES, "where"), *rows], right=(1, 2, 3, 4)),
        "",
        f"looked in {', '.join(map(str, places.searched))}",
        "or your own graph or set of graphs: pkg.module:function, pyg:CLASS/NAME, or a path",
    ]


def suite_lines(names: RegisteredNames) -> list[str]:
    """Return all suites, with their datasets and numbers of difficulties, attacks and repeats."""
    suites = [(suite, len(suite.attacks), "") for suite in SUITES.values()]
    suites += [(suite, len(attacks), plugin) for suite, attacks, plugin in names.suites.values()]
    rows = [
        (
            suite.name,
            str(len(suite.difficulties)),
            str(attacks),
            str(suite.repeats),
            ", ".join(suite.datasets),
            plugin,
        )
        for suite, attacks, plugin in suites
    ]
    head = ("suite", "difficulties", "attacks", "repeats", "datasets", "plugin")
    return columns([head, *rows], right=(1, 2, 3))


def leaderboard_lines(places: Places) -> list[str]:
    """Return the published leaderboards, the shipped ones and those in the data home."""
    rows: list[tuple[str, ...]] = [
        ("rank against", "dataset", "defences", "repeats", "attacks", "about")
    ]
    for dataset in published_datasets():
        board = published_board(dataset)
        if board is not None:
            rows.append(_board_row("published", board))
    wrong = []
    shipped = set()
    lacking = []
    with as_file(files("grb_check").joinpath("ranking/boards/shipped")) as folder:
        for path in _json_files(folder):
            shipped.add(path.stem)
            board = read_board(path)
            rows.append(_board_row("zoo", board))
            lacking += _lacking(board)
    for path in _json_files(places.home / FOLDER):
        try:
            board = read_board(path)
        except DataError as error:
            wrong.append(str(error))
            continue
        is_zoo = board.dataset == path.stem and path.stem not in shipped
        rows.append(_board_row("zoo" if is_zoo else str(path), board))
        lacking += _lacking(board) if is_zoo else []
    return [
        *columns(rows, right=(2, 3)),
        *lacking,
        *wrong,
        "",
        f"looked in {places.home / FOLDER}; python -m grb_check leaderboard RUN.json makes more",
    ]


def _registered(names: Mapping[str, RegisteredTarget]) -> list[str]:
    rows = [(name, entry.target, entry.plugin) for name, entry in names.items()]
    return ["", *columns([("of plugins", "target", "plugin"), *rows])] if rows else []


def _lacking(board: Board) -> list[str]:
    titles = ", ".join(not_measured(board))
    return [f"not measured on zoo of {board.dataset}: {titles}"] if titles else []


def _board_row(name: str, board: Board) -> tuple[str, ...]:
    repeats = board.repeats
    return (
        name,
        board.dataset,
        str(len(board.defences)),
        str(repeats or "-"),
        ", ".join(board.attacks),
        board.about[0] if board.about else "",
    )


def _json_files(folder: Path) -> Iterator[Path]:
    yield from sorted(folder.glob("*.json")) if folder.is_dir() else ()
