"""Contents of the sections of a page: values for the templates, no markup.

Templates read `Digest`, `Line` and the records of outcomes directly; this module groups, selects
and words what has no such form yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from grb_check.attacks.names import WORST, base_name, with_budget
from grb_check.cases.findings import anchor
from grb_check.cases.outcomes import Outcome
from grb_check.errors import count
from grb_check.evaluation.diagnostics import DIAGNOSTICS
from grb_check.files.text import fit
from grb_check.ranking.averages import Averages
from grb_check.ranking.lowest import Lowest, threat_name
from grb_check.reports import audit
from grb_check.reports.case_line import Line
from grb_check.reports.columns import filled
from grb_check.reports.conclusion import conclusions
from grb_check.reports.digest import Digest, changes_in, compared, limits_of
from grb_check.reports.html.picture import pictures
from grb_check.reports.lowest_words import delta_lines, gap_lines
from grb_check.reports.notes import diagnostic_notes, notes
from grb_check.reports.plain import clipped, percent
from grb_check.settings.options import describe_given

BOXED: Final = 12  # failures shown with all their details; the others have a row in a table
FINE: Final = ("pass", "within", "equal")  # results of a comparison with the baseline
SETTING: Final = 1200  # characters shown of a setting
ON_THE_LEFT: Final = ("difficulty", "attack")  # of the table of all cases, as one
_SETTINGS: Final = (  # on the page, besides limits
    *("suite", "datasets", "difficulties", "attacks", "budgets", "repeats", "split", "training"),
    *("features", "device", "comparison_models", "data", "download"),
)


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
            Tile("Least left", percent(left.attacked), self.digest.name_of(least)),
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
    """The accuracy that each attack of a threat left, the strongest first, and the conclusions."""
    tables = []
    for low in digest.summary.lowest:
        lines = [
            line
            for line in digest.groups.get((fit(low.model), low.dataset), ())
            if _is_of(line, low) and line.row.outcome is not None
        ]
        tables.append((low, digest.title_of((low.model, low.dataset)), sorted(lines, key=_left)))
    return {
        "conclusions": [text.text for text in audit.audit_conclusions(digest.record)],
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
    values = {name: getattr(settings, name) for name in _SETTINGS}
    values["datasets"] = tuple(dataset.name for dataset in settings.datasets)
    values["attacks"] = tuple(map("/".join, settings.attacks))
    chosen = []
    for name, value in values.items():
        shown = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
        if shown:
            chosen.append((name.replace("_", " "), clipped(shown, SETTING)))
    return {
        "models": settings.models,
        "limits": limits_of(record),
        "given": describe_given(settings.given, settings.origins, ("attacked", "data")),
        "chosen": chosen,
        "versions": record.environment,
        "changes": {
            group: changes
            for group, lines in digest.groups.items()
            if (changes := changes_in(lines))
        },
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
    note = f"of {count(len(results), 'case')}{f', {unsure} undecided' if unsure else ''}"
    return [Tile("Worse than baseline", str(results.count("fail")), note)]


def _drop(line: Line) -> float:
    """The drop; above any drop for a case without figures."""
    return line.row.outcome.drop if line.row.outcome else 2.0
