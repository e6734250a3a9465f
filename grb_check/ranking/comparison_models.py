"""The models that a run is ranked against: whole leaderboards, or some of their defences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from grb_check.cases.case import Case
from grb_check.datasets import Places
from grb_check.errors import UsageError, unknown
from grb_check.models.zoo import ZOO as REFERENCE_MODELS
from grb_check.models.zoo import entry
from grb_check.ranking.boards.board import Board, not_measured
from grb_check.ranking.boards.files import ZOO, measured_board, read_board
from grb_check.ranking.boards.published_board import PUBLISHED, published_board, published_datasets

FLAG: Final = "--grb-rank-against"
RUN: Final = "run"  # the models of the run, in reports that also name leaderboards
MAKE: Final = "python -m grb_check leaderboard RUN.json"
MEASURE: Final = "pytest --grb-only --grb-suite=paper --grb-model=zoo --grb-json=RUN.json"
SHOWN_DIGITS: Final = 12  # of a fingerprint
SHOWN_MODELS: Final = 5  # in a note


@dataclass(frozen=True, kw_only=True)
class ComparisonModels:
    """The value of `--grb-rank-against`; false if the option was not given.

    Attributes:
        published: GRB's printed leaderboard of each dataset.
        zoo: the measured leaderboard of each dataset.
        defences: names or titles of defences of the measured leaderboard, to rank among these only.
        files: leaderboards in files.
    """

    published: bool = False
    zoo: bool = False
    defences: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self != ComparisonModels()

    def __str__(self) -> str:
        kinds = [PUBLISHED] * self.published + [ZOO] * self.zoo
        return ", ".join([*kinds, *self.defences, *map(str, self.files)])


class NamedDataset(Protocol):
    """A dataset of the run: its name, the text that finds it, and whether it is a set of graphs."""

    @property
    def name(self) -> str: ...

    @property
    def given(self) -> str: ...

    @property
    def of_graphs(self) -> bool: ...


@dataclass(frozen=True, kw_only=True)
class Boards:
    """The leaderboards that a run is ranked on.

    Attributes:
        of: dataset -> its leaderboards.
        notes: on what they lack.
    """

    of: Mapping[str, Sequence[Board]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def read_comparison_models(words: Sequence[str], path: Callable[[str], str]) -> ComparisonModels:
    """Read the words of the option.

    Args:
        words: `published`, `zoo`, paths (with a slash, or ending in .json), or defences.
        path: makes a path absolute.

    Raises:
        UsageError: both the whole measured leaderboard and some of its defences.
    """
    files = [word for word in words if "/" in word or "\\" in word or word.endswith(".json")]
    defences = [word for word in words if word not in (PUBLISHED, ZOO, *files)]
    if ZOO in words and defences:
        raise UsageError(
            f"{FLAG}: zoo is all defences of the measured leaderboard, and {', '.join(defences)} "
            f"would be some of them; give one or the other"
        )
    return ComparisonModels(
        published=PUBLISHED in words,
        zoo=ZOO in words,
        files=tuple(dict.fromkeys(map(path, files))),
        defences=tuple(dict.fromkeys(defences)),
    )


def boards_for(
    models: ComparisonModels,
    cases: Sequence[Case],
    sources: Sequence[NamedDataset],
    places: Places,
    *,
    optional: bool = False,
) -> Boards:
    """Find the leaderboards of the datasets of a run, before it.

    Args:
        models: to rank against.
        cases: of the run; none if the plugin's cases are left out.
        sources: the datasets that the options select.
        places: where downloads and leaderboards are stored, and the split in force.
        optional: whether leaderboards that cannot be used are noted and not refused, as when the
            ini file names them and the command line selects other cases.

    Raises:
        UsageError: a leaderboard or a defence does not exist, is of other data, or has none of the
            cases of its dataset.
        DataError: a file is not a leaderboard.
    """
    if not (models and cases):
        return Boards()
    names = {case.dataset for case in cases}
    try:
        boards = find_boards(models, [source for source in sources if source.name in names], places)
        _check_attacks(boards.of, cases)
    except UsageError as error:
        if not optional:
            raise
        return Boards(notes=(f"no ranks, {error}",))
    return boards


def find_boards(
    models: ComparisonModels, sources: Sequence[NamedDataset], places: Places
) -> Boards:
    """Find the leaderboards of each dataset, of which some may have only the defences asked for.

    Raises:
        UsageError, DataError: see `boards_for`.
    """
    if sources and all(source.of_graphs for source in sources):
        raise UsageError(
            f"{FLAG}: leaderboards are of single graphs, and {_listed(sources)} is a set of "
            f"graphs; leave the option out: the models of a run are ranked among each other"
        )
    _check_protocol(places)
    names = [source.name for source in sources]
    measured: Mapping[str, Board] = {}
    if models.zoo or models.defences:
        measured = _present((name, measured_board(name, places.home)) for name in names)
        _check_defences(models.defences, measured.values())
        if not measured:
            raise _no_measured_board(sources)
    published: Mapping[str, Board] = {}
    if models.published:
        published = _present((name, published_board(name)) for name in names)
        if not published:
            raise _no_published_board(sources)
    given = [_from_file(Path(path), names) for path in models.files]
    result: dict[str, tuple[Board, ...]] = {}
    notes = []
    for name in names:
        boards = [published[name]] if name in published else []
        if name in measured:
            board = measured[name]
            titles = {_title(word, board) for word in models.defences}
            boards.append(board.among(titles) if titles else board)
            notes += _not_measured(board) if models.zoo else []
        boards += [board for board in given if board.dataset == name]
        _check_boards(boards, places)
        result[name] = tuple(boards)
        if not boards:
            notes.append(f"no rank on {name}: {FLAG} names no leaderboard of it")
    return Boards(of=result, notes=tuple(notes))


def _check_attacks(boards: Mapping[str, Sequence[Board]], cases: Sequence[Case]) -> None:
    """Check that each leaderboard has one of the selected cases of its dataset.

    Raises:
        UsageError: it has none; names what it has.
    """
    for dataset, its_boards in boards.items():
        dataset_cases = [case for case in cases if case.dataset == dataset]
        for board in its_boards:
            if dataset_cases and not any(map(board.has, dataset_cases)):
                raise UsageError(
                    f"{FLAG}: none of the selected cases of {dataset} is on the leaderboard "
                    f"{board.name}, which has {board.contents}; select one of these, or leave "
                    f"{FLAG} out"
                )


def check_data(boards: Boards, dataset: str, fingerprint: str) -> None:
    """Check that the leaderboards of a dataset were measured on the data of that fingerprint.

    Raises:
        UsageError: one was not; names both fingerprints.
    """
    for board in boards.of.get(dataset, ()):
        if board.fingerprint not in ("", fingerprint):
            raise UsageError(
                f"{FLAG}: the leaderboard {board.name} of {dataset} was measured on other data or "
                f"another split (fingerprint {board.fingerprint[:SHOWN_DIGITS]}, here "
                f"{fingerprint[:SHOWN_DIGITS]}); measure this data, as with {MEASURE}, make "
                f"another with {MAKE}, and give its file"
            )


def _present(boards: Iterable[tuple[str, Board | None]]) -> dict[str, Board]:
    return {name: board for name, board in boards if board is not None}


def _from_file(path: Path, names: Sequence[str]) -> Board:

    if not path.is_file():
        raise UsageError(f"{FLAG}: there is no file {str(path)!r}; make one with {MAKE}")
    if path.stem in (PUBLISHED, ZOO, RUN):
        raise UsageError(
            f"{FLAG}: reports would call {str(path)!r} {path.stem!r}, which already means "
            f"something else; rename the file"
        )
    board = read_board(path)
    if board.dataset not in names:
        raise UsageError(
            f"{FLAG}: {str(path)!r} is a leaderboard of {board.dataset}, which is not among the "
            f"datasets of this run: {', '.join(names)}; add --grb-dataset, or leave the file out"
        )
    return board


def _check_protocol(places: Places) -> None:
    """Check that models are trained as GRB's are, on features as GRB's are."""
    for name, given, needed in (
        ("training", places.training, "inductive"),
        ("features", places.features, "grb"),
    ):
        if given not in (None, needed):
            raise UsageError(
                f"{FLAG}: leaderboards are measured with --grb-{name}={needed}, and this run has "
                f"--grb-{name}={given}; give {needed}, or leave {FLAG} out"
            )


def _check_boards(boards: Sequence[Board], places: Places) -> None:
    """Check the leaderboards of a dataset: names differ, and the split is that of the run."""
    names = [board.name for board in boards]
    for board in boards:
        if names.count(board.name) > 1:
            raise UsageError(
                f"{FLAG}: two leaderboards of {board.dataset} have the name {board.name!r}; rename "
                f"one of the files"
            )
        if places.split is not None and board.split not in ("", places.split):
            raise UsageError(
                f"{FLAG}: the leaderboard {board.name} of {board.dataset} is on the split "
                f"{board.split!r}, and this run on {places.split!r}; give --grb-split="
                f"{board.split}, or make one of a run with --grb-split={places.split}: {MAKE}"
            )


def _check_defences(words: Sequence[str], boards: Iterable[Board]) -> None:
    """Refuse a defence that neither a leaderboard nor the reference models have."""

    titles = list(dict.fromkeys(title for board in boards for title in board.defences))
    usual = [model.title for model in REFERENCE_MODELS.values()]
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
    """Return the title of a defence on that leaderboard."""

    for title in board.defences:
        if title.lower() == word.lower():
            return title
    try:
        title = entry(word).title
    except UsageError:  # a user's model, which is on another dataset's leaderboard
        title = word
    if title not in board.defences:
        raise UsageError(
            f"{FLAG}: {title} is not measured on the leaderboard of {board.dataset}, which has "
            f"{', '.join(board.defences)}; measure it, and make another with {MAKE}"
        )
    return title


def _not_measured(board: Board) -> list[str]:
    """Return a note on the reference models that a measured leaderboard lacks, if any."""

    titles = not_measured(board)
    if not titles:
        return []
    more = f" and {len(titles) - SHOWN_MODELS} more" if len(titles) > SHOWN_MODELS else ""
    listed = f"{', '.join(titles[:SHOWN_MODELS])}{more}"
    return [f"not measured on the leaderboard {board.name} of {board.dataset}: {listed}"]


def _no_measured_board(sources: Sequence[NamedDataset]) -> UsageError:
    return UsageError(
        f"{FLAG}: there is no measured leaderboard of {_listed(sources)}; make one with "
        f"{_command(sources)} (it takes a while), or list those that exist with "
        f"--grb-list=leaderboards"
    )


def _no_published_board(sources: Sequence[NamedDataset]) -> UsageError:

    return UsageError(
        f"{FLAG}: GRB has published no leaderboard of {_listed(sources)}; there are those of "
        f"{', '.join(published_datasets())}. For other data measure one with {_command(sources)} "
        f"and give zoo"
    )


def _listed(sources: Sequence[NamedDataset]) -> str:
    return ", ".join(source.name for source in sources)


def _command(sources: Sequence[NamedDataset]) -> str:
    first = next(source for source in sources if not source.of_graphs)
    return f"{MEASURE} --grb-dataset={first.given or first.name}, then {MAKE}"
