"""The rest of the page: the baseline, diagnostics and notes, the run, and all of its cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from grb_check.cases.outcomes import Outcome
from grb_check.evaluation.diagnostics import DIAGNOSTICS, anchor
from grb_check.reports.digest import Digest, Line, compared, gate_lines
from grb_check.reports.markup import Content, Html, cell, code, number, row, table, tag
from grb_check.reports.notes import diagnostic_notes, notes
from grb_check.reports.page_verdicts import badge
from grb_check.reports.plain import DASH, clipped, count, fit, percent

RESULTS: Final[Mapping[str, tuple[str, str]]] = {
    "fail": ("✕ worse", "bad"),
    "inconclusive": ("? inconclusive", "warn"),
    "incomparable": ("≠ incomparable", "warn"),
    "new": ("+ new", "plain"),
    "pass": ("✓ not worse", "good"),
    "equal": ("= equal", "good"),
}


def baseline(digest: Digest, prefix: str) -> Html | None:
    """The comparison with the stored run, all cases together first."""
    about, lines = digest.baseline, compared(digest)
    if about is None and not lines:
        return None
    about = about or {}
    seen = [line for line in lines if (line.comparison or {})["result"] not in ("pass", "equal")]
    fine = [line for line in lines if line not in seen]
    together = [_compared_row(each["name"], each) for each in about.get("together") or ()]
    told = about.get("notes") or ()

    def judged(title: str, members: Sequence[Line]) -> Html:
        rows = [_compared_line(digest, each, prefix) for each in members]
        return table(title, _COMPARED, rows, "compared")

    return tag(
        "section",
        tag("h2", "Against the baseline"),
        tag("p", _about(about), class_="about"),
        table("All cases together", _COMPARED, together, "compared") if together else None,
        judged("Case by case", seen) if seen else None,
        _folded(f"{count(len(fine), 'case')} not worse", judged("Not worse", fine))
        if fine
        else None,
        tag("ul", _items(told)) if told else None,
        _unused(about),
        id=f"{prefix}baseline",
    )


def diagnostics(digest: Digest, prefix: str) -> Html | None:
    """Signs that an attack was too weak, and what else wants to be said."""
    found = {finding.name for row in digest.rows if row.outcome for finding in row.outcome.findings}
    told, noted = diagnostic_notes(digest.rows), notes(digest.rows)
    if not told and not noted:
        return None
    meanings = [
        tag("li", tag("strong", name), f": {_meaning(name)}; ", code(anchor(name)))
        for name in sorted(found)
    ]
    return tag(
        "section",
        tag("h2", "Diagnostics and notes"),
        _folded("What they measure", tag("ul", meanings)) if meanings else None,
        [tag("h3", "The attack may have been too weak"), tag("ul", _items(told))] if told else None,
        [tag("h3", "Notes"), tag("ul", _items(noted))] if noted else None,
        id=f"{prefix}diagnostics",
    )


def environment(digest: Digest, prefix: str) -> Html:
    """What ran, with which limits, from where each setting came."""
    record = digest.record
    settings = record["settings"]
    origins = settings.get("origins") or {}
    limits = [(text, f"({origin})" if origin else "") for text, origin in gate_lines(record)]
    facts: list[tuple[str, Content]] = [
        ("models", [tag("div", code(_model(each))) for each in settings.get("models") or ()]),
        ("limits", [tag("div", text, " ", tag("span", of, class_="muted")) for text, of in limits]),
    ]
    for name in _SETTINGS:
        value = settings.get(name)
        if value not in (None, "", [], {}):
            origin = origins.get(f"grb_{_OPTIONS.get(name, name)}", "")
            shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            of = tag("span", f" ({origin})", class_="muted") if origin else None
            facts.append((name.replace("_", " "), [clipped(fit(shown), 1200), of]))
    facts.append(("versions", ", ".join(f"{name} {text}" for name, text in _versions(record))))
    for dataset, outcome in _datasets(digest).items():
        facts.append((dataset, [outcome.origin, "; ", code(outcome.dataset[:16])]))
    return tag(
        "section",
        tag("h2", "Settings and environment"),
        tag(
            "dl", [[tag("dt", fit(name)), tag("dd", fact)] for name, fact in facts], class_="facts"
        ),
        id=f"{prefix}run",
    )


def all_cases(digest: Digest, prefix: str) -> Html | None:
    """Every case with its repeats, a table for each model and dataset."""
    if not digest.lines:
        return None
    about = (
        "Accuracies and drops are means over the repeats, ± one standard deviation; the interval "
        "is that of the mean drop, 95 %. The last column has the drop of each repeat and opens."
    )
    return tag(
        "section",
        tag("h2", "All cases"),
        tag("p", about, class_="about"),
        [
            table(digest.title_of(group), _CASES, [_case(line, prefix) for line in lines], "cases")
            for group, lines in digest.groups.items()
        ],
        _elsewhere(digest),
        id=f"{prefix}cases",
    )


def _case(line: Line, prefix: str) -> Html:
    outcome, verdict = line.row.outcome, line.row.verdict or {}
    name = code(line.row.case.cell)
    mark = cell(badge(line.status, _because(line)))
    anchor_id = f"{prefix}case-{line.number}"
    if outcome is None:
        why = clipped(line.first or "no figures", 300)
        return row(name, mark, cell(why, class_="text", colspan=8), id_=anchor_id)
    spread = f" ± {100 * outcome.drop_deviation:.1f}" if len(outcome.repeats) > 1 else ""
    interval = verdict.get("interval")
    told = f"{100 * interval[0]:.1f} … {100 * interval[1]:.1f}" if interval else DASH
    return row(
        name,
        mark,
        number(percent(outcome.clean)),
        number(percent(outcome.attacked)),
        number(f"{percent(outcome.drop)}{spread}"),
        number(told),
        number(percent(line.limit)),
        number(percent(outcome.reference_drop)),
        number(f"{outcome.seconds:.1f}"),
        cell(_repeats(outcome)),
        id_=anchor_id,
    )


def _because(line: Line) -> str:
    """What stands behind the verdict, where that is not the drop."""
    if line.row.below_floor:
        return " (clean)"
    if line.row.failed_diagnostics:
        return f" ({', '.join(line.row.failed_diagnostics)})"
    if (line.comparison or {}).get("result") == "fail" and not line.excess:
        return " (baseline)"
    if (line.row.verdict or {}).get("borderline"):
        return ", borderline"
    outcome = line.row.outcome
    return " ?" if outcome is not None and outcome.findings else ""


def _repeats(outcome: Outcome) -> Html:
    drops = " / ".join(f"{100 * drop:.1f}" for drop in outcome.drops)
    head = ("seed", "clean", "attacked", "reference", "method", "spent", "s")
    rows = [
        row(
            str(each.seed),
            number(percent(each.victim.clean)),
            number(percent(each.victim.attacked)),
            number(percent(each.reference.drop)),
            cell(f"{each.member} {each.method}".strip()),
            cell(_spent(each.spent)),
            number(f"{each.seconds:.1f}"),
        )
        for each in outcome.repeats
    ]
    inner = tag(
        "table",
        tag("thead", tag("tr", [tag("th", each, scope="col") for each in head])),
        tag("tbody", rows),
    )
    return tag("details", tag("summary", drops), inner)


def _spent(spent: Mapping[str, int]) -> str:
    return ", ".join(
        f"{number} {name.replace('_', ' ')}" for name, number in spent.items() if number
    )


def _compared_line(digest: Digest, line: Line, prefix: str) -> Html:
    link = tag("a", code(digest.name_of(line)), href=f"#{prefix}case-{line.number}")
    return _compared_row(link, line.comparison or {})


def _compared_row(name: Content, comparison: Mapping[str, Any]) -> Html:
    """Accuracies in percent, losses in points."""
    text, kind = RESULTS[comparison["result"]]
    loss, low = comparison.get("loss"), comparison.get("low")
    counted = f"{comparison['n']} {comparison.get('unit') or ''}" if comparison.get("n") else ""
    return row(
        name,
        cell(tag("span", text, class_=f"badge {kind}")),
        number(percent(comparison.get("before"))),
        number(percent(comparison.get("after"))),
        number(DASH if loss is None else f"{loss:.1f}"),
        number(DASH if low is None else f"{low:.1f}"),
        number(_probability(comparison.get("p"))),
        number(_probability(comparison.get("alpha"))),
        cell(", ".join(filter(None, (comparison.get("method"), counted))), class_="way"),
        cell(comparison.get("text") or "", class_="text"),
    )


def _probability(value: float | None) -> str:
    return DASH if value is None else f"{value:.4f}" if value >= 0.0001 else "< 0.0001"


def _about(about: Mapping[str, Any]) -> str:
    parts = []
    if about.get("path"):
        parts.append(
            f"{'Written to' if about.get('written') else 'Compared with'} {about['path']}."
        )
    if about.get("margin") is not None:
        parts.append(f"A loss of up to {about['margin']:g} points is no regression.")
    if about.get("alpha") is not None:
        tests = (about.get("tests") or 0) + len(about.get("together") or ())
        shared = f", shared by {count(tests, 'test')}" if about.get("tests") else ""
        parts.append(f"False alarms of the whole run: {about['alpha']:.0%} at most{shared}.")
    parts.append("Losses of accuracy under attack are in points, positive is worse; at least: the")
    parts.append("lower end of the one-sided interval.")
    return fit(" ".join(parts))


def _unused(about: Mapping[str, Any]) -> Html | None:
    unused = about.get("unused") or ()
    if not unused:
        return None
    head = f"{count(len(unused), 'entry', 'entries')} that no case used"
    return _folded(head, tag("ul", [tag("li", code(each)) for each in unused]))


def _elsewhere(digest: Digest) -> Html | None:
    """How many cases of the run are not here."""
    known = {line.row.node_id for line in digest.lines} | set(digest.unknown)
    away = [each for each in digest.record.get("planned") or () if each["node_id"] not in known]
    if not away:
        return None
    why = "in other parts of it" if digest.shard else "left out, or skipped before they began"
    told = f"{count(len(away), 'case')} of the run not here: {why}."
    return tag("p", told, class_="muted")


def _meaning(name: str) -> str:
    known = DIAGNOSTICS.get(name)
    return f"{known.figure} (limit {known.limit:g})" if known is not None else "of a later version"


def _model(spec: Mapping[str, Any]) -> str:
    args = spec.get("args")
    shown = "" if args in (None, "", "{}", "mappingproxy({})", {}) else f" with {args}"
    return f"{spec.get('label', '')} = {spec.get('target', '')}{shown}"


def _versions(record: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    return [("grb_check", record["grb_check"]), *record["environment"].items()]


def _datasets(digest: Digest) -> dict[str, Outcome]:
    return {row.case.dataset: row.outcome for row in digest.rows if row.outcome is not None}


def _items(lines: Sequence[str]) -> list[Html]:
    return [tag("li", fit(line)) for line in lines]


def _folded(summary: str, content: Html) -> Html:
    return tag("details", tag("summary", summary), content)


_SETTINGS: Final = (
    "suite",
    "datasets",
    "difficulties",
    "attacks",
    "budgets",
    "repeats",
    "split",
    "training",
    "features",
    "device",
    "rank_against",
    "delta_to",
    "data",
    "download",
)
_OPTIONS: Final = {
    "datasets": "dataset",
    "difficulties": "difficulty",
    "attacks": "attack",
    "budgets": "budget",
}
_COMPARED: Final = (
    "case",
    "verdict",
    "before",
    "now",
    "loss",
    "at least",
    "p",
    "alpha",
    "method",
    "why",
)
_CASES: Final = (
    "case",
    "verdict",
    "clean",
    "attacked",
    "drop",
    "interval",
    "limit",
    "reference",
    "s",
    "repeats",
)
