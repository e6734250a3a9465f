"""The page about a history: a small chart for each case, with the drop over the runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Final, Literal, NamedTuple, TypeAlias, TypeVar

from grb_check.errors import count
from grb_check.reports.digest import BAD, UNSURE, WORDS
from grb_check.reports.history import PastCase, PastRun
from grb_check.reports.html.charts import ceiling
from grb_check.reports.html.page import ENVIRONMENT
from grb_check.reports.plain import percent

Point: TypeAlias = tuple[float, float]
Value = TypeVar("Value")
Kind: TypeAlias = Literal["good", "unsure", "bad"]

WIDTH, HEIGHT = 300, 132
LEFT, RIGHT, TOP, BOTTOM = 34, 8, 10, 20
MOST: Final = 100  # marks of a chart; more do not fit beside each other
LISTED: Final = 20  # runs in the table
NAMED: Final = 5  # cases in a sentence
VERSIONS: Final = ("grb_check", "torch", "torch-geometric")


class Key(NamedTuple):
    """Identity of a case over several runs, which make one series."""

    model: str
    id: str
    test: str

    @property
    def name(self) -> str:
        """`model@id`, and a user's own test."""
        return f"{self.model}@{self.id}{f' ({self.test})' if self.test else ''}"


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A run in a chart; `kind` decides its shape."""

    x: float
    y: float
    kind: Kind
    title: str


@dataclass(frozen=True, kw_only=True)
class Chart:
    """The drops of one case over the runs.

    Attributes:
        name: `scenario/attack`, and a user's own test.
        last: the case in the last run that has it.
        change: of the drop since the run before that; None without one.
        failures: number of runs in which it failed.
        steps: (drop, height) of the horizontal grid lines.
        drops: lines of the drop, broken where a run has no figures.
        bands: outlines of the 95 % intervals.
        limits: lines of the limit.
        marks: of the runs.
    """

    name: str
    last: PastCase
    change: float | None
    failures: int
    steps: Sequence[Point]
    drops: Sequence[Sequence[Point]]
    bands: Sequence[Sequence[Point]]
    limits: Sequence[Sequence[Point]]
    marks: Sequence[Mark]

    @property
    def kind(self) -> Kind:
        """That of the last run."""
        return _kind(self.last)


@dataclass(frozen=True, kw_only=True)
class Update:
    """A run whose versions are not those of the run before."""

    x: float
    run: PastRun
    text: str


@dataclass(frozen=True, kw_only=True)
class Trend:
    """The content of the page.

    Attributes:
        runs: by date.
        groups: (model and dataset) -> difficulty -> charts.
        updates: changes of versions.
        news: sentences on what changed with the last run.
        thinned: number of runs of which a chart shows the worst.
    """

    runs: Sequence[PastRun]
    groups: Mapping[str, Mapping[str, Sequence[Chart]]]
    updates: Sequence[Update]
    news: Sequence[str]
    thinned: int

    @property
    def last(self) -> PastRun:
        """The last run."""
        return self.runs[-1]

    @property
    def listed(self) -> list[PastRun]:
        """The last runs, the latest first."""
        return [*reversed(self.runs[-LISTED:])]

    @property
    def failed(self) -> int:
        """The number of runs that failed."""
        return sum(not run.passed for run in self.runs)


def trend_text(runs: Sequence[PastRun], release: str) -> str:
    """Return the document about runs.

    Args:
        runs: one or more, by date.
        release: of grb_check, which makes the page.
    """
    template = ENVIRONMENT.get_template("trend.html")
    return template.render(trend=trend(runs), release=release, name_of=commit_name)


def trend(runs: Sequence[PastRun]) -> Trend:
    """Lay out the page about runs: one or more, by date."""
    series: dict[Key, list[tuple[int, PastRun, PastCase]]] = {}
    for place, run in enumerate(runs):
        for case in run.cases:
            series.setdefault(_key(case), []).append((place, run, case))
    thinned = math.ceil(len(runs) / MOST)
    groups: dict[str, dict[str, list[Chart]]] = {}
    for key, found in series.items():
        dataset, difficulty, attack = _split(key.id)
        levels = groups.setdefault(f"{key.model} on {dataset}", {})
        name = f"{attack} ({key.test})" if key.test else attack
        levels.setdefault(difficulty, []).append(_chart(name, found, len(runs), thinned))
    updates = [
        Update(x=_x(place, len(runs)), run=run, text=text)
        for place, (before, run) in enumerate(pairwise(runs), 1)
        if (text := _updated(before, run))
    ]
    return Trend(runs=runs, groups=groups, updates=updates, news=_news(runs), thinned=thinned)


def commit_name(run: PastRun) -> str:
    """Return the first characters of the commit of a run, and whether files were changed."""
    name = run.commit[:7] or "no commit"
    return f"{name}, changed" if run.dirty else name


def _chart(
    name: str, found: Sequence[tuple[int, PastRun, PastCase]], runs: int, thinned: int
) -> Chart:
    shown = [max(each, key=_badness) for each in _buckets(found, thinned)]
    figures = [case.drop or 0.0 for _, _, case in shown]
    figures += [case.limit for _, _, case in shown if case.limit is not None]
    figures += [case.interval[1] for _, _, case in shown if case.interval is not None]
    top, floor = ceiling(max(figures)), HEIGHT - BOTTOM

    def y(drop: float) -> float:
        return round(floor - min(max(drop, 0.0) / top, 1.0) * (floor - TOP), 1)

    at = [(_x(place, runs), case) for place, _, case in shown]
    bands = []
    for part in _unbroken([(x, case.interval) for x, case in at]):
        upper = [(x, y(high)) for x, (_, high) in part]
        bands.append([*upper, *((x, y(low)) for x, (low, _) in reversed(part))])
    drops = [case.drop for _, _, case in found if case.drop is not None]
    return Chart(
        name=name,
        last=found[-1][2],
        change=drops[-1] - drops[-2] if len(drops) > 1 else None,
        failures=sum(case.status in BAD for _, _, case in found),
        steps=[(top * step / 2, y(top * step / 2)) for step in range(3)],
        drops=_lines([(x, case.drop) for x, case in at], y),
        bands=bands,
        limits=_lines([(x, case.limit) for x, case in at], y),
        marks=[
            Mark(
                x=_x(place, runs),
                y=y(top if case.drop is None else case.drop),
                kind=_kind(case),
                title=_title(run, case),
            )
            for place, run, case in shown
        ],
    )


def _buckets(
    found: Sequence[tuple[int, PastRun, PastCase]], thinned: int
) -> Iterator[list[tuple[int, PastRun, PastCase]]]:
    for _, each in groupby(found, key=lambda entry: entry[0] // thinned):
        yield [*each]


def _badness(entry: tuple[int, PastRun, PastCase]) -> tuple[bool, float]:
    case = entry[2]
    return case.status in BAD, -1.0 if case.drop is None else case.drop


def _kind(case: PastCase) -> Kind:
    return "bad" if case.status in BAD else "unsure" if case.status in UNSURE else "good"


def _title(run: PastRun, case: PastCase) -> str:
    figures = "no figures" if case.drop is None else f"drop {percent(case.drop)}"
    limit = "" if case.limit is None else f", limit {percent(case.limit)}"
    return f"{commit_name(run)}, {run.date[:10]}: {figures}{limit}, {WORDS[case.status]}"


def _x(place: int, runs: int) -> float:
    share = place / (runs - 1) if runs > 1 else 0.5
    return round(LEFT + 6 + share * (WIDTH - RIGHT - LEFT - 12), 1)


def _lines(
    values: Sequence[tuple[float, float | None]], y: Callable[[float], float]
) -> list[list[Point]]:
    return [[(x, y(value)) for x, value in part] for part in _unbroken(values)]


def _unbroken(values: Sequence[tuple[float, Value | None]]) -> Iterator[list[tuple[float, Value]]]:
    """The stretches of two or more values between gaps."""
    for known, part in groupby(values, key=lambda each: each[1] is not None):
        found = [(x, value) for x, value in part if value is not None]
        if known and len(found) > 1:
            yield found


def _updated(before: PastRun, run: PastRun) -> str:
    names = [(name, before.environment.get(name), run.environment.get(name)) for name in VERSIONS]
    return ", ".join(f"{name} {old} → {new}" for name, old, new in names if old != new)


def _news(runs: Sequence[PastRun]) -> list[str]:
    """Sentences on the cases whose verdict is another one than in the run before."""
    if len(runs) < 2:
        return []
    before, now = (
        {Key(each.model, each.id, each.test): each for each in run.cases} for run in runs[-2:]
    )
    both = [key for key in now if key in before]
    failing = [key for key in both if now[key].status in BAD and before[key].status not in BAD]
    passing = [key for key in both if now[key].status not in BAD and before[key].status in BAD]
    gone = [key for key in before if key not in now]
    words = (("Newly failing", failing), ("Passing again", passing), ("No longer run", gone))
    return [f"{text}: {_named(keys)}." for text, keys in words if keys]


def _named(keys: Sequence[Key]) -> str:
    more = len(keys) - NAMED
    named = [key.name for key in keys[:NAMED]]
    return ", ".join([*named, *([f"and {count(more, 'more case')}"] if more > 0 else [])])


def _key(case: PastCase) -> Key:
    return Key(case.model, case.id, case.test)


def _split(case_id: str) -> tuple[str, str, str]:
    """Return dataset, difficulty and `scenario/attack` of an id; a test of a user's may differ."""
    dataset, *cell = case_id.rsplit("/", 3)
    return (dataset, cell[0], "/".join(cell[1:])) if len(cell) == 3 else (case_id, "", "")
