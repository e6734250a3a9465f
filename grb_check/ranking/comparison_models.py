"""Whom the models of a run are ranked against: leaderboards, whole or some of their defences.

Imports neither torch nor a leaderboard before one is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from grb_check.cases.case import Case
from grb_check.datasets import Places, Source
from grb_check.errors import UsageError, unknown

if TYPE_CHECKING:
    from grb_check.ranking.boards.board import Board

FLAG: Final = "--grb-rank-against"
PUBLISHED: Final = "published"
ZOO: Final = "zoo"
RUN: Final = "run"  # the models of the run, beside names of leaderboards
MAKE: Final = "python -m grb_check leaderboard --dataset"
SHOWN: Final = 12  # digits of a fingerprint
NAMED: Final = 5  # models that a note names


@dataclass(frozen=True, kw_only=True)
class Against:
    """What `--grb-rank-against` asks for.

    Attributes:
        published: GRB's printed leaderboard of each dataset.
        zoo: the measured leaderboard of each dataset.
        defences: names or titles of defences of the measured one, to rank among these only.
        files: leaderboards in files.
    """

    published: bool = False
    zoo: bool = False
    defences: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()

    def __bool__(self) -> bool:
        return self != NOBODY

    def __str__(self) -> str:
        kinds = [PUBLISHED] * self.published + [ZOO] * self.zoo
        return ", ".join([*kinds, *self.defences, *map(str, self.files)])


NOBODY: Final = Against()


@dataclass(frozen=True, kw_only=True)
class Opponents:
    """A leaderboard, and the titles of the defences to rank among; empty for all."""

    board: Board
    only: tuple[str, ...] = ()


def read_against(words: Sequence[str], path: Callable[[str], Path]) -> Against:
    """What the words of the option stand for.

    Args:
        words: `published`, `zoo`, paths (with a slash, or ending in .json), or defences.
        path: makes a path absolute.

    Raises:
        UsageError: both the whole measured leaderboard and some of its defences.
    """
    found = Against(
        published=PUBLISHED in words,
        zoo=ZOO in words,
        files=tuple(dict.fromkeys(path(word) for word in words if _is_path(word))),
        defences=tuple(
            dict.fromkeys(
                word for word in words if word not in (PUBLISHED, ZOO) and not _is_path(word)
            )
        ),
    )
    if found.zoo and found.defences:
        raise UsageError(
            f"{FLAG}: zoo is all defences of the measured leaderboard, and "
            f"{', '.join(found.defences)} would be some of them; give one or the other"
        )
    return found


def find_opponents(
    against: Against, sources: Sequence[Source], places: Places
) -> tuple[dict[str, tuple[Opponents, ...]], tuple[str, ...]]:
    """The leaderboards of each dataset, and notes on datasets that have none.

    Args:
        against: what was asked for.
        sources: the datasets of the run.
        places: where downloads and leaderboards are kept, and the split that is in force.

    Raises:
        UsageError: a leaderboard or a defence does not exist, or it is one of other data.
        DataError: a file is no leaderboard.
    """
    from grb_check.ranking.boards.files import find_board
    from grb_check.ranking.boards.published import published_board

    if against and sources and all(source.of_graphs for source in sources):
        raise UsageError(
            f"{FLAG}: leaderboards are of single graphs, and {_listed(sources)} is a set; leave "
            f"the option out: the models of a run are ranked among each other"
        )
    _check_protocol(places)
    names = [source.name for source in sources]
    measured = {}
    if against.zoo or against.defences:
        measured = _present({name: find_board(ZOO, name, places.home) for name in names})
        if against.defences:
            _check_words(against.defences, measured.values())
        if not measured:
            raise _nothing_measured(sources)
    printed = {}
    if against.published:
        printed = _present({name: published_board(name) for name in names})
        if not printed:
            raise _nothing_printed(sources)
    given = [_from_file(path, names) for path in against.files]
    found: dict[str, tuple[Opponents, ...]] = {}
    notes = []
    for name in names:
        boards = [Opponents(board=printed[name])] if name in printed else []
        if name in measured:
            board = measured[name]
            only = tuple(dict.fromkeys(_title(word, board) for word in against.defences))
            boards.append(Opponents(board=board, only=only))
            notes += _lacking(board) if against.zoo else []
        boards += [Opponents(board=board) for board in given if board.dataset == name]
        _check_boards(boards, places)
        found[name] = tuple(boards)
        if not boards:
            notes.append(f"no rank on {name}: {FLAG} names no leaderboard of it")
    return found, tuple(notes)


def check_attacks(opponents: Mapping[str, Sequence[Opponents]], cases: Sequence[Case]) -> None:
    """Refuse a leaderboard that knows none of the selected cases of its dataset.

    Raises:
        UsageError: names what the leaderboard knows.
    """
    for dataset, boards in opponents.items():
        own = [case for case in cases if case.dataset == dataset]
        for each in boards:
            if own and not any(knows(each.board, case) for case in own):
                raise UsageError(
                    f"{FLAG}: none of the selected cases of {dataset} is on the leaderboard "
                    f"{each.board.name}, which has {', '.join(each.board.attacks)} at "
                    f"{', '.join(each.board.difficulties)}"
                )


def check_data(opponents: Sequence[Opponents], dataset: str, fingerprint: str) -> None:
    """Refuse a leaderboard that was measured on other data of the same name.

    Raises:
        UsageError: names both fingerprints.
    """
    for each in opponents:
        board = each.board
        if board.fingerprint and board.fingerprint != fingerprint:
            raise UsageError(
                f"{FLAG}: the leaderboard {board.name} of {dataset} was measured on other data or "
                f"another split (fingerprint {board.fingerprint[:SHOWN]}, here "
                f"{fingerprint[:SHOWN]}); measure this data with {MAKE} ... and give the file"
            )


def knows(board: Board, case: Case) -> bool:
    """Whether the case's attack is on the leaderboard, at its difficulty."""
    attack = f"{case.scenario}/{case.attack}"
    return case.difficulty in board.difficulties and attack in board.attacks


def _is_path(word: str) -> bool:
    return "/" in word or "\\" in word or word.endswith(".json")


def _present(boards: Mapping[str, Board | None]) -> dict[str, Board]:
    return {name: board for name, board in boards.items() if board is not None}


def _from_file(path: Path, names: Sequence[str]) -> Board:
    from grb_check.ranking.boards.files import read_board

    if not path.is_file():
        raise UsageError(f"{FLAG}: there is no file {str(path)!r}; make one with {MAKE} NAME")
    if path.stem in (PUBLISHED, ZOO, RUN):
        raise UsageError(
            f"{FLAG}: {str(path)!r} would be {path.stem!r} in reports, which is the name of "
            f"something else there; rename the file"
        )
    board = read_board(path)
    if board.dataset not in names:
        raise UsageError(
            f"{FLAG}: {str(path)!r} is a leaderboard of {board.dataset}, which is not among the "
            f"datasets of this run: {', '.join(names)}"
        )
    return board


def _check_protocol(places: Places) -> None:
    """Leaderboards are of models that learn as GRB's do, on features as GRB's are."""
    usual = Places()
    for name, given, needed in (
        ("training", places.training, usual.training),
        ("features", places.features, usual.features),
    ):
        if given != needed:
            raise UsageError(
                f"{FLAG}: leaderboards are measured with --grb-{name}={needed}, and this run has "
                f"--grb-{name}={given}; give {needed}, or leave {FLAG} out"
            )


def _check_boards(boards: Sequence[Opponents], places: Places) -> None:
    """Of one dataset: reports tell them apart by name, and the split must be today's."""
    names = [each.board.name for each in boards]
    for each in boards:
        board = each.board
        if names.count(board.name) > 1:
            raise UsageError(
                f"{FLAG}: two leaderboards of {board.dataset} have the name {board.name!r}; rename "
                f"one of the files"
            )
        if board.split and board.split != places.split:
            raise UsageError(
                f"{FLAG}: the leaderboard {board.name} of {board.dataset} is on the split "
                f"{board.split!r}, and this run on {places.split!r}; give --grb-split="
                f"{board.split}, or make one with {MAKE} {board.dataset} --split {places.split}"
            )


def _check_words(words: Sequence[str], boards: Collection[Board]) -> None:
    """Refuse a defence that neither a leaderboard nor the reference models know."""
    from grb_check.models.zoo import ZOO as REFERENCE_MODELS
    from grb_check.models.zoo import entry

    titles = list(dict.fromkeys(title for board in boards for title in board.defences))
    usual = [each.title for each in REFERENCE_MODELS.values()]
    for word in words:
        if word.lower() in map(str.lower, titles):
            continue
        try:
            entry(word)
        except UsageError:
            others = [title for title in titles if title not in usual]
            allowed = [PUBLISHED, ZOO, *REFERENCE_MODELS, *others]
            error = unknown("leaderboard or defence", word, allowed)
            raise UsageError(f"{FLAG}: {error}, or the path of a leaderboard") from None


def _title(word: str, board: Board) -> str:
    """The title of a defence on that leaderboard."""
    from grb_check.models.zoo import entry

    for title in board.defences:
        if title.lower() == word.lower():
            return title
    try:
        title = entry(word).title
    except UsageError:  # a model of the user's, which is on another dataset's leaderboard
        title = word
    if title not in board.defences:
        raise UsageError(
            f"{FLAG}: {title} is not measured on the leaderboard of {board.dataset}, which has "
            f"{', '.join(board.defences)}; measure it with {MAKE} {board.dataset}"
        )
    return title


def _lacking(board: Board) -> list[str]:
    """A note on the reference models that a measured leaderboard has not."""
    from grb_check.ranking.boards.board import not_measured

    titles = not_measured(board)
    if not titles:
        return []
    more = f" and {len(titles) - NAMED} more" if len(titles) > NAMED else ""
    told = f"{', '.join(titles[:NAMED])}{more}"
    return [f"not measured on the leaderboard {board.name} of {board.dataset}: {told}"]


def _nothing_measured(sources: Sequence[Source]) -> UsageError:
    return UsageError(
        f"{FLAG}: there is no measured leaderboard of {_listed(sources)}; make one with "
        f"{_command(sources)} (it takes a while), or see which there are with "
        f"--grb-list=leaderboards"
    )


def _nothing_printed(sources: Sequence[Source]) -> UsageError:
    from grb_check.ranking.boards.published import published_datasets

    return UsageError(
        f"{FLAG}: GRB has published no leaderboard of {_listed(sources)}; there are those of "
        f"{', '.join(published_datasets())}. For other data measure one with {_command(sources)} "
        f"and give zoo"
    )


def _listed(sources: Sequence[Source]) -> str:
    return ", ".join(source.name for source in sources)


def _command(sources: Sequence[Source]) -> str:
    first = next(source for source in sources if not source.of_graphs)
    return f"{MAKE} {first.asked or first.name}"
