"""The figures on the page: heat maps, budget curves, summaries of models, ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from grb_check.attacks.names import with_budget
from grb_check.cases.case import DIFFICULTIES
from grb_check.cases.metrics import Figure
from grb_check.ranking.averages import Averages, averages
from grb_check.ranking.lowest import Lowest, delta_lines, deltas, lowest
from grb_check.reports.charts import Mark, Series, budget_chart
from grb_check.reports.digest import BAD, Digest, Line, place_line, standing
from grb_check.reports.markup import Content, Html, cell, code, html, number, row, table, tag
from grb_check.reports.page_verdicts import SHORT, SIGNS
from grb_check.reports.plain import DASH, count, fit, percent

# Upper ends of the shades; the last has none.
SHADES: Final = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)


def heat_maps(digest: Digest, prefix: str) -> Html | None:
    """Drops, attack x difficulty, for each model and dataset."""
    if not digest.groups:
        return None
    about = (
        "The share of the clean accuracy that each attack takes, mean over the repeats. A frame "
        "and ✕ mark what failed; ? what cannot be told; ! a case without figures."
    )
    return tag(
        "section",
        tag("h2", "Drops by attack and difficulty"),
        tag("p", about, class_="about"),
        _key(),
        tag(
            "div",
            [_heat(digest, group, lines, prefix) for group, lines in digest.groups.items()],
            class_="panels",
        ),
        id=f"{prefix}drops",
    )


def curve_charts(digest: Digest, prefix: str) -> Html | None:
    """Drops over budgets, a drawing for each model, dataset and difficulty, and the figures."""
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for curve in digest.record.get("curves") or ():
        key = (curve["model"], curve["dataset"], curve["difficulty"])
        groups.setdefault(key, []).append(curve)
    if not groups:
        return None
    about = (
        "How the drop grows with what the attacker may do: the budget is the share that may be "
        "attacked. Vertical strokes: one standard deviation over the repeats to both sides."
    )
    return tag(
        "section",
        tag("h2", "Budget curves"),
        tag("p", about, class_="about"),
        tag(
            "div", [_curves(digest, *key, found) for key, found in groups.items()], class_="panels"
        ),
        id=f"{prefix}curves",
    )


def summaries(digest: Digest, prefix: str) -> Html | None:
    """Averages, the strongest attack, and how the drops compare with a reference's."""
    settings = digest.record["settings"]
    to = settings.get("delta_to", "")
    labels = {line.row.case.model for line in digest.lines}
    told = delta_lines(deltas(digest.rows, to if to in labels else ""))
    means, lows = averages([line.row for line in digest.lines]), lowest(digest.rows)
    if not means and not told:
        return None
    about = (
        "GRB's summaries of the accuracies in percent, formed inside each repeat, with the row "
        "without attack: mean; mean of the three lowest; weighted, in which the lowest count most."
    )
    groups = {(each.model, each.dataset): None for each in means}
    return tag(
        "section",
        tag("h2", "Summary of the models"),
        tag("p", about, class_="about"),
        [_summary(digest, group, means, lows) for group in groups],
        tag("ul", [tag("li", fit(line.replace(" +- ", " ± "))) for line in told]) if told else None,
        id=f"{prefix}summary",
    )


def rank_tables(digest: Digest, prefix: str) -> Html | None:
    """Where the models stand on leaderboards and among each other."""
    ranks = digest.record["ranks"]
    standings, compared = ranks.get("standings", ()), ranks.get("comparisons", ())
    limits, notes = ranks.get("verdicts", ()), ranks.get("notes", ())
    if not (standings or compared or limits or notes):
        return None
    placed = [each for each in standings if each.get("rank") is not None]
    none = [each for each in standings if each.get("rank") is None]
    head = ("dataset / difficulty", "leaderboard", "rank", "weighted", "next better", "next worse")
    return tag(
        "section",
        tag("h2", "Ranks"),
        tag(
            "p",
            "By weighted accuracy over the attacks that both sides have. 1 is the most robust.",
            class_="about",
        ),
        tag("ul", [_limit(each) for each in limits]) if limits else None,
        table(
            "On leaderboards",
            ("model", *head) if digest.several_models else head,
            [_place(each, digest.several_models) for each in placed],
        )
        if placed
        else None,
        tag("ul", [tag("li", place_line(each, digest.several_models)) for each in none])
        if none
        else None,
        _comparisons(compared),
        tag("ul", [tag("li", fit(note)) for note in notes]) if notes else None,
        id=f"{prefix}ranks",
    )


def shade(drop: float) -> int:
    """Which of the shades a drop has."""
    return sum(drop > end for end in SHADES)


def _key() -> Html:
    ends = [f"up to {SHADES[0]:.0%}", *(f"{end:.0%}" for end in SHADES[1:]), "more"]
    shades = [tag("span", text, class_=f"h{step}") for step, text in enumerate(ends)]
    return tag("div", "Drop:", shades, class_="key")


def _heat(digest: Digest, group: tuple[str, str], lines: Sequence[Line], prefix: str) -> Html:
    levels = [
        each for each in DIFFICULTIES if any(line.row.case.difficulty == each for line in lines)
    ]
    cells: dict[str, dict[str, list[Line]]] = {}
    for line in lines:
        attacks = cells.setdefault(line.attack, {})
        attacks.setdefault(line.row.case.difficulty, []).append(line)
    rows = [
        row(code(attack), *(_heat_cell(found.get(level, ()), prefix) for level in levels))
        for attack, found in cells.items()
    ]
    return tag(
        "figure",
        tag("figcaption", digest.title_of(group)),
        table(None, ("attack", *levels), rows, "heat"),
    )


def _heat_cell(lines: Sequence[Line], prefix: str) -> Html:
    """The case of the largest drop, where several tests have the same one."""
    if not lines:
        return tag("td", tag("span", DASH, class_="none"))
    line = max(lines, key=lambda each: each.row.outcome.drop if each.row.outcome else 2.0)
    outcome = line.row.outcome
    sign = SIGNS[line.status][0] if line.status != "pass" else ""
    text = percent(outcome.drop) if outcome is not None else ""
    link = tag(
        "a",
        f"{text} {sign}".strip(),
        href=f"#{prefix}case-{line.number}",
        title=f"{line.attack}, {line.row.case.difficulty}: {SHORT[line.status]}",
    )
    style = f"h{shade(outcome.drop)}" if outcome is not None else "plain"
    return tag("td", link, class_=f"{style} over" if line.status in BAD else style)


def _curves(
    digest: Digest,
    model: str,
    dataset: str,
    difficulty: str,
    found: Sequence[Mapping[str, Any]],
) -> Html:
    series = [
        Series(
            f"{each['scenario']}/{each['attack']}",
            [
                Mark(point["budget"], point["drop"], point["drop_deviation"])
                for point in each["points"]
            ],
        )
        for each in found
    ]
    title = f"{digest.title_of((fit(model), dataset))}, {difficulty}"
    budgets = sorted({mark.budget for each in series for mark in each.marks})
    rows = []
    for each in series:
        drops = {mark.budget: percent(mark.drop) for mark in each.marks}
        rows.append(row(code(each.name), *(number(drops.get(at, DASH)) for at in budgets)))
    figures = table("Drop by budget", ("attack", *(f"{at:g}" for at in budgets)), rows, "figured")
    return tag(
        "figure",
        tag("figcaption", title),
        budget_chart(title, series),
        tag("details", tag("summary", "Figures"), figures),
    )


def _summary(
    digest: Digest,
    group: tuple[str, str],
    means: Sequence[Averages],
    lows: Sequence[Lowest],
) -> Html:
    low = {
        (each.difficulty, each.budget): each for each in lows if (each.model, each.dataset) == group
    }
    rows = [
        _summary_row(each, low.get((each.difficulty, each.budget)))
        for each in means
        if (each.model, each.dataset) == group
    ]
    head = ("difficulty", "attacks", "clean", "mean", "3 lowest", "weighted", "lowest", "under")
    return table(digest.title_of((fit(group[0]), group[1])), head, rows, "figured")


def _summary_row(each: Averages, low: Lowest | None) -> Html:
    return row(
        with_budget(each.difficulty, each.budget),
        number(str(each.attacks)),
        *map(_figure, (each.clean, each.mean, each.three_lowest, each.weighted)),
        _figure(low.accuracy) if low is not None else number(DASH),
        cell(code(low.attack) if low is not None else DASH, class_="n"),
    )


def _figure(figure: Figure) -> Html:
    spread = f" ± {100 * figure.deviation:.1f}" if figure.deviation else ""
    return number(f"{100 * figure.mean:.1f}{spread}")


def _place(record: Mapping[str, Any], several: bool) -> Html:
    place = standing(record)
    where = f"{place.dataset}/{place.difficulty}"
    over = f" (over {place.attacks} of its {count(place.attacks + len(place.missing), 'attack')})"
    cells = [
        cell(place.board, over if place.missing else None, class_="text"),
        cell(tag("strong", f"{place.rank}"), f" of {place.competitors}"),
        cell(percent(place.figure)),
        *(
            cell(f"{each.name} {percent(each.figure)}" if each is not None else "none")
            for each in (place.better, place.worse)
        ),
    ]
    return (
        row(str(record["model"]), cell(code(where)), *cells)
        if several
        else row(code(where), *cells)
    )


def _limit(verdict: Mapping[str, Any]) -> Html:
    passed = verdict["passed"]
    sign, kind = ("?", "warn") if passed is None else ("✓", "good") if passed else ("✕", "bad")
    return tag("li", tag("span", sign, class_=f"badge {kind}"), " ", fit(verdict["message"]))


def _comparisons(compared: Sequence[Mapping[str, Any]]) -> Content:
    weighted = [each for each in compared if not each["attack"]]
    under = [each for each in compared if each["attack"]]
    if not weighted:
        return None
    whole = table("The models of this run, by weighted accuracy", _AMONG, map(_order, weighted))
    if not under:
        return whole
    each = table("Under each attack, by accuracy", _AMONG, map(_order, under))
    return html([whole, tag("details", tag("summary", "Under each attack"), each)])


def _order(compared: Mapping[str, Any]) -> Html:
    name = "/".join(filter(None, (compared["group"], compared["attack"])))
    order = [
        f"{own['rank']}. {own['name']} {percent(own['accuracy'])}" for own in compared["models"]
    ]
    return row(code(name), cell(", ".join(order), class_="text"))


_AMONG: Final = ("dataset / difficulty", "the best first")
