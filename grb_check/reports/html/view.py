"""Contents of the sections of a page: values for the templates, no markup.

Templates read `Digest`, `Line` and the records of outcomes directly; this module groups, selects
and words what has no such form yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, NamedTuple

from grb_check.attacks.names import WORST, base_name, split_budget, with_budget
from grb_check.cases.outcomes import Outcome, anchor
from grb_check.errors import count
from grb_check.evaluation.diagnostics import DIAGNOSTICS
from grb_check.files.text import fit
from grb_check.ranking.averages import Averages
from grb_check.ranking.lowest import Lowest, threat_name
from grb_check.reports import audit_words
from grb_check.reports.audit_words import delta_lines, gap_lines
from grb_check.reports.columns import diagnostic_notes, filled, notes
from grb_check.reports.conclusion import conclusions
from grb_check.reports.digest import Digest, Line, compared, limits_of
from grb_check.reports.plain import clipped, percent
from grb_check.settings.settings import describe_given

WIDTH: Final = 440  # of the drawing, in its units; labels are then legible on a phone
LEFT, RIGHT, TOP, BOTTOM = 112, 22, 8, 26
ROW: Final = 18
STYLES: Final = 6  # colours of models


class Dot(NamedTuple):
    """One case: the accuracy that is left, with its interval, beside that without attack.

    Attributes:
        line: the case.
        style: number of the model's colour.
        attacked, clean: horizontal positions.
        interval: of the accuracy that is left; None if unknown.
        limit: position of the least accuracy that passes; None without a limit.
    """

    line: Line
    style: int
    attacked: float
    clean: float
    interval: tuple[float, float] | None
    limit: float | None


@dataclass(frozen=True, kw_only=True)
class PictureRow:
    """One attack at one difficulty, or a heading without dots.

    Attributes:
        label: the attack, or the difficulty and scenario.
        y: vertical position.
        dots: a case for each model.
        marks: class and position of what is left of other models under the same attack.
    """

    label: str
    y: float
    dots: Sequence[Dot] = ()
    marks: Sequence[tuple[str, float]] = ()


@dataclass(frozen=True, kw_only=True)
class Picture:
    """All cases of a dataset, by difficulty.

    Attributes:
        dataset: name.
        models: in the order of their styles.
        width, height: of the drawing.
        left, right, floor: ends and height of the horizontal axis.
        steps: (accuracy, position) of the vertical grid lines.
        rows: from top to bottom.
        curves: style and points of each attack with several budgets, joined in their order.
        kinds: classes of the marks that occur.
    """

    dataset: str
    models: Sequence[str]
    width: int
    height: float
    left: int
    right: int
    floor: float
    steps: Sequence[tuple[float, float]]
    rows: Sequence[PictureRow]
    curves: Sequence[tuple[int, Sequence[tuple[float, float]]]]
    kinds: Sequence[str]


def pictures(digest: Digest) -> list[Picture]:
    """Return a picture for each dataset that has figures."""
    datasets = dict.fromkeys(dataset for _, dataset in digest.groups)
    result = (_picture(dataset, digest) for dataset in datasets)
    return [picture for picture in result if picture.rows]


def _picture(dataset: str, digest: Digest) -> Picture:
    lines = [line for line in digest.lines if line.row.case.dataset == dataset and line.row.outcome]
    models = list(dict.fromkeys(line.model for line in lines))
    lines.sort(key=lambda line: line.row.case.order[2:])
    rows: list[PictureRow] = []

    def add(label: str, dots: Sequence[Dot] = (), marks: Sequence[tuple[str, float]] = ()) -> None:
        rows.append(
            PictureRow(label=label, y=TOP + ROW * (len(rows) + 0.5), dots=dots, marks=marks)
        )

    for (level, scenario), group in groupby(
        lines, key=lambda line: (line.row.case.difficulty, line.row.case.scenario)
    ):
        add(f"{level}, {scenario}")
        for attack, cases in groupby(group, key=lambda line: line.row.case.attack):
            members = list(cases)
            first = members[0].row.outcome
            dots = [_dot(line, models.index(line.model) % STYLES) for line in members]
            add(
                attack.replace("+budget=", " at "), dots, _marks(first) if first is not None else ()
            )
    return Picture(
        dataset=dataset,
        models=models,
        width=WIDTH,
        height=TOP + ROW * len(rows) + BOTTOM,
        left=LEFT,
        right=WIDTH - RIGHT,
        floor=TOP + ROW * len(rows),
        steps=[(step / 4, _x(step / 4)) for step in range(5)],
        rows=rows,
        curves=_curves(rows),
        kinds=list(dict.fromkeys(kind for row in rows for kind, _ in row.marks)),
    )


def _curves(rows: Sequence[PictureRow]) -> list[tuple[int, list[tuple[float, float]]]]:
    result: dict[tuple[str, str, str, str, int], list[tuple[float, float]]] = {}
    for row in rows:
        for dot in row.dots:
            case = dot.line.row.case
            attack, budget = split_budget(case.attack)
            if budget is not None:
                key = (case.difficulty, case.scenario, attack, dot.line.model, dot.style)
                result.setdefault(key, []).append((dot.attacked, row.y))
    return [(key[-1], points) for key, points in result.items() if len(points) > 1]


def _dot(line: Line, style: int) -> Dot:
    outcome, verdict = line.row.outcome, line.row.verdict
    assert outcome is not None
    drops = verdict.interval if verdict is not None else None
    return Dot(
        line=line,
        style=style,
        attacked=_x(outcome.attacked),
        clean=_x(outcome.clean),
        interval=None
        if drops is None
        else (_from_left(outcome, drops[1]), _from_left(outcome, drops[0])),
        limit=None if line.limit is None else _from_left(outcome, line.limit),
    )


def _marks(outcome: Outcome) -> list[tuple[str, float]]:
    best = outcome.most_robust
    result = [
        ("undefended", outcome.undefended),
        ("no-graph", outcome.no_graph),
        ("best", None if best is None else best[1]),
    ]
    return [(kind, _x(value)) for kind, value in result if value is not None]


def _from_left(outcome: Outcome, drop: float) -> float:
    """The position of the accuracy that a drop leaves."""
    return _x(outcome.clean * (1.0 - drop))


def _x(accuracy: float) -> float:
    share = min(max(accuracy, 0.0), 1.0)
    return round(LEFT + share * (WIDTH - RIGHT - LEFT), 1)


BOXED: Final = 12  # failures shown with all their details; the others have a row in a table
FINE: Final = ("pass", "equal")  # results of a comparison with the baseline
SETTING: Final = 1200  # characters shown of a setting


class Tile(NamedTuple):
    """A figure below the headline."""

    name: str
    figure: str
    note: str


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of the page.

    Attributes:
        name: of its template, and its id.
        title: in the navigation.
        content: variables of the template.
    """

    name: str
    title: str
    content: Mapping[str, Any]

    @property
    def folded(self) -> bool:
        """Whether a reader opens it: all but the picture, an audit and what failed."""
        return self.name not in ("picture", "broke") and not self.content.get("conclusions")


@dataclass(frozen=True, kw_only=True)
class RunView:
    """A run on the page.

    Attributes:
        digest: of the run.
        prefix: of the ids on the page, which differs between runs.
        sections: in order, without empty ones.
    """

    digest: Digest
    prefix: str
    sections: Sequence[Section]

    @property
    def version(self) -> str:
        """The version of grb_check that made the record."""
        return self.digest.record.release

    @property
    def measured(self) -> list[tuple[Line, Outcome]]:
        """The cases with figures."""
        return [(line, line.row.outcome) for line in self.digest.lines if line.row.outcome]

    @property
    def conclusions(self) -> list[str]:
        """The conclusion on each model."""
        return conclusions(self.digest.record)

    @property
    def tiles(self) -> list[Tile]:
        """The figures below the headline; none if nothing was measured."""
        if not self.measured:
            return []
        worst, most = max(self.measured, key=lambda pair: pair[1].drop)
        least, left = min(self.measured, key=lambda pair: pair[1].attacked)
        repeats = sorted({len(outcome.repeats) for _, outcome in self.measured})
        several = f"{repeats[0]} to {repeats[-1]} repeats"
        repeats_text = several if len(repeats) > 1 else count(repeats[0], "repeat")
        return [
            Tile("Cases", str(sum(self.digest.counts.values())), f"{repeats_text} each"),
            Tile("Largest drop", percent(most.drop), self.digest.name_of(worst)),
            Tile("Lowest accuracy", percent(left.attacked), self.digest.name_of(least)),
            *_rank_tile(self.digest),
            *_baseline_tile(self.digest),
        ]


def sections(digest: Digest) -> list[Section]:
    """Return the sections that are not empty, in order."""
    broke = ("broke", digest.trouble, _failures(digest))
    threats = _threats(digest)
    audit, others = ("threats", "Audit", threats), ("threats", "Threats", threats)
    contents = (
        ("picture", "Picture", {"pictures": pictures(digest)}),
        *((audit, broke) if threats["conclusions"] else (broke, others)),
        ("baseline", "Baseline", _baseline(digest)),
        ("ranks", "Ranks", _ranks(digest)),
        ("summary", "Summary", _summary(digest)),
        ("diagnostics", "Diagnostics", _diagnostics(digest)),
        ("run", "Settings", _settings(digest)),
        ("cases", "All cases", _cases(digest)),
    )
    return [
        Section(name=name, title=title, content=content)
        for name, title, content in contents
        if any(content.values())
    ]


def says_more(line: Line) -> bool:
    """Return whether the message has lines that the page does not show elsewhere."""
    shown = ("replay: ", "smallest counter-example: ", *filter(None, [line.first]))
    said = (text_line.strip() for text_line in line.text.splitlines())
    return any(text and not text.startswith(shown) for text in said)


def _failures(digest: Digest) -> dict[str, Any]:
    shown = [*digest.bad, *digest.unsure]
    return {"boxed": shown[:BOXED], "others": shown[BOXED:], "unknown": digest.unknown}


def _baseline(digest: Digest) -> dict[str, Any]:
    lines = compared(digest)
    fine = [line for line in lines if line.comparison and line.comparison.result in FINE]
    others = [line for line in lines if line not in fine]
    return {"baseline": digest.baseline, "others": others, "fine": fine}


def _ranks(digest: Digest) -> dict[str, Any]:
    result = digest.summary.comparisons
    overall = {name: ranking for name, ranking in result.items() if name.count("/") == 1}
    return {
        "standings": digest.record.ranks.standings,
        "overall": overall,
        "by_attack": {name: ranking for name, ranking in result.items() if name not in overall},
        "notes": digest.record.ranks.notes,
    }


def _threats(digest: Digest) -> dict[str, Any]:
    """What each attack of a threat left, the strongest first, and what follows from that."""
    tables = []
    for low in digest.summary.lowest:
        lines = [
            line
            for line in digest.groups.get((fit(low.model), low.dataset), ())
            if _is_of(line, low) and line.row.outcome is not None
        ]
        tables.append((low, digest.title_of((low.model, low.dataset)), sorted(lines, key=_left)))
    return {
        "conclusions": [text.text for text in audit_words.conclusions(digest.record)],
        "gaps": gap_lines(digest.summary.lowest),
        "tables": tables,
    }


def _is_of(line: Line, low: Lowest) -> bool:
    """Whether a case is an attack of a threat; `worst` is made of the others."""
    case = line.row.case
    alone = base_name(case.attack) != WORST
    return alone and (case.difficulty, threat_name(case)) == (low.difficulty, low.threat)


def _left(line: Line) -> float:
    assert line.row.outcome is not None
    return line.row.outcome.attacked


def _summary(digest: Digest) -> dict[str, Any]:
    tables: dict[str, list[tuple[str, Averages]]] = {}
    for mean in digest.summary.averages:
        row = (with_budget(mean.difficulty, mean.budget), mean)
        tables.setdefault(digest.title_of((mean.model, mean.dataset)), []).append(row)
    differences = [line.replace(" +- ", " ± ") for line in delta_lines(digest.summary.delta)]
    return {"tables": tables, "differences": differences}


def _diagnostics(digest: Digest) -> dict[str, Any]:
    result = {
        finding.name for row in digest.rows if row.outcome for finding in row.outcome.findings
    }
    return {
        "meanings": [(name, _meaning(name), anchor(name)) for name in sorted(result)],
        "doubts": diagnostic_notes(digest.rows),
        "notes": [*digest.record.notes, *notes(digest.rows, digest.record.settings.repeats)],
    }


def _meaning(name: str) -> str:
    known = DIAGNOSTICS.get(name)
    return "from another version" if known is None else f"{known.figure} (limit {known.limit:g})"


def _settings(digest: Digest) -> dict[str, Any]:
    record = digest.record
    settings = record.settings
    chosen = []
    for name in _SETTINGS:
        value = getattr(settings, name)
        if value not in ("", ()):
            shown = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
            chosen.append((name.replace("_", " "), clipped(shown, SETTING)))
    return {
        "models": settings.models,
        "limits": limits_of(record),
        "given": describe_given(settings.given, settings.origins, ("attacked", "data")),
        "chosen": chosen,
        "versions": record.environment,
        "data": {row.case.dataset: row.outcome for row in digest.rows if row.outcome},
    }


def _cases(digest: Digest) -> dict[str, Any]:
    if not digest.lines:
        return {}
    known = {line.row.node_id for line in digest.lines} | set(digest.unknown)
    elsewhere = sum(row.node_id not in known for row in digest.record.planned)
    shown = [
        column for column in filled(digest.lines) if column.page and column.name not in ON_THE_LEFT
    ]
    return {"groups": digest.groups, "columns": shown, "elsewhere": elsewhere}


def _rank_tile(digest: Digest) -> list[Tile]:
    """The lowest rank on the first leaderboard, for a run of one model."""
    ranked = digest.record.ranks.standings
    if not ranked or digest.several_models:
        return []
    first = [row for row in ranked if row.board == ranked[0].board]
    worst = max(first, key=lambda standing: standing.rank / standing.competitors)
    where = f"{worst.board}, {worst.dataset}/{worst.difficulty}"
    return [Tile("Lowest rank", str(worst.rank), f"of {worst.competitors} on {where}")]


def _baseline_tile(digest: Digest) -> list[Tile]:
    results = [line.comparison.result for line in digest.lines if line.comparison]
    if not results:
        return []
    unsure = results.count("inconclusive")
    note = f"of {count(len(results), 'case')}{f', {unsure} inconclusive' if unsure else ''}"
    return [Tile("Worse than baseline", str(results.count("fail")), note)]


def _drop(line: Line) -> float:
    """The drop; above any drop for a case without figures."""
    return line.row.outcome.drop if line.row.outcome else 2.0


ON_THE_LEFT: Final = ("difficulty", "attack")  # of the table of all cases, as one
_SETTINGS: Final = (  # on the page, besides limits
    *("suite", "datasets", "difficulties", "attacks", "budgets", "repeats", "split", "training"),
    *("features", "device", "rank_against", "data", "download"),
)
