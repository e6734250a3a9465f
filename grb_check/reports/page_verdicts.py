"""The beginning of the page: what the run came to, what broke, by how much, how to see it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from grb_check.failures import counter_example_text
from grb_check.reports.charts import meter
from grb_check.reports.digest import BAD, WORDS, Digest, Line, Status
from grb_check.reports.markup import Content, Html, breakable, cell, code, number, row, table, tag
from grb_check.reports.plain import DASH, clipped, count, percent, points

SHOWN: Final = 12  # cases with a box of their own; the others have a line
LONGEST: Final = 6000  # characters of a message

SIGNS: Final[Mapping[Status, tuple[str, str]]] = {
    "fail": ("✕", "bad"),
    "error": ("!", "bad"),
    "missing": ("!", "bad"),
    "inconclusive": ("?", "warn"),
    "skip": (DASH, "plain"),
    "pass": ("✓", "good"),
}
SHORT: Final[Mapping[Status, str]] = {
    "fail": "failed",
    "error": "error",
    "missing": "no verdict",
    "inconclusive": "inconclusive",
    "skip": "skipped",
    "pass": "passed",
}


def badge(status: Status, more: str = "") -> Html:
    """A verdict with its sign: never colour alone."""
    sign, kind = SIGNS[status]
    return tag("span", f"{sign} {SHORT[status]}{more}", class_=f"badge {kind}")


def top(digest: Digest) -> Html:
    """The headline, in words and figures."""
    models = ", ".join(dict.fromkeys(model for model, _ in digest.groups if model))
    about = ["Graph robustness", models, f"grb_check {digest.record['grb_check']}", digest.name]
    if digest.shard:
        about.append(f"part {digest.shard.get('index')} of {digest.shard.get('count')} of a run")
    sign, kind = ("✓ passed", "good") if digest.green else ("✕ failed", "bad")
    return tag(
        "header",
        tag("p", " · ".join(filter(None, about)), class_="eyebrow"),
        tag("span", sign, class_=f"badge big {kind}"),
        tag("h1", digest.headline),
        _lead(digest),
        [tag("p", text, class_="lead") for text in digest.further],
        _tiles(digest),
        class_="top",
    )


def verdicts(digest: Digest, prefix: str) -> Html | None:
    """A box for each case that failed or cannot be told; None where there is none."""
    unsure = [line for line in digest.lines if line.status == "inconclusive"]
    shown = [*digest.bad, *unsure]
    if not shown and not digest.unknown:
        return None
    return tag(
        "section",
        tag("h2", digest.trouble),
        tag("p", _about(digest), class_="about"),
        [_box(digest, line, prefix) for line in shown[:SHOWN]],
        _others(digest, shown[SHOWN:], prefix),
        _unknown(digest),
        id=f"{prefix}broke",
    )


def _about(digest: Digest) -> str:
    told = "The farthest beyond its limit first. The drop is relative: the share of the clean "
    told += "accuracy that the attack takes; the bar runs from 0 to 100 %, with a stroke at the "
    told += "limit and a thin line for the 95 % interval where it is known."
    if any(line.status == "inconclusive" for line in digest.lines):
        told += " What is inconclusive has not failed: the repeats cannot tell whether it is worse."
    lacking = any(line.status == "fail" and not line.replay for line in digest.bad)
    return told + (" Nothing was kept of cases without a command to replay them." * lacking)


def _lead(digest: Digest) -> Html | None:
    """The one sentence that says most."""
    over = [line for line in digest.bad if line.excess]
    if over:
        line = over[0]
        assert line.row.outcome is not None
        return tag(
            "p",
            "Farthest beyond its limit: ",
            code(digest.name_of(line)),
            f" loses {percent(line.row.outcome.drop)} of its accuracy, "
            f"{100 * line.excess:.1f} points more than the {percent(line.limit)} that pass.",
            class_="lead",
        )
    if digest.bad:
        line = digest.bad[0]
        told = line.first.removesuffix(f". {line.row.case.id}")
        first = clipped(told or WORDS[line.status], 300)
        return tag("p", code(digest.name_of(line)), f": {first}", class_="lead")
    measured = [line for line in digest.lines if line.row.outcome is not None]
    if not measured:
        return None
    line = max(measured, key=_drop)
    limit = f", of {percent(line.limit)} that pass" if line.limit is not None else ""
    return tag(
        "p",
        "Largest drop: ",
        code(digest.name_of(line)),
        f" loses {percent(_drop(line))} of its accuracy{limit}.",
        class_="lead",
    )


def _tiles(digest: Digest) -> Html | None:
    measured = [line for line in digest.lines if line.row.outcome is not None]
    if not measured:
        return None
    worst = max(measured, key=_drop)
    least = min(measured, key=lambda line: line.row.outcome.attacked if line.row.outcome else 1.0)
    assert least.row.outcome is not None
    repeats = sorted({len(line.row.outcome.repeats) for line in measured if line.row.outcome})
    several = f"{repeats[0]} to {repeats[-1]} repeats"
    several = count(repeats[0], "repeat") if len(repeats) == 1 else several
    tiles: list[tuple[str, str, str]] = [
        ("Cases", str(sum(digest.counts.values())), f"{several} each"),
        ("Largest drop", percent(_drop(worst)), digest.name_of(worst)),
        ("Lowest accuracy", percent(least.row.outcome.attacked), digest.name_of(least)),
    ]
    tiles += _rank_tile(digest)
    tiles += _baseline_tile(digest)
    return tag(
        "dl",
        [
            tag("div", tag("dt", name), tag("dd", figure, tag("span", breakable(note))))
            for name, figure, note in tiles
        ],
        class_="tiles",
    )


def _rank_tile(digest: Digest) -> list[tuple[str, str, str]]:
    """The worst place on the first leaderboard."""
    ranked = [each for each in digest.record["ranks"].get("standings", ()) if each.get("rank")]
    ranked = [each for each in ranked if each["board"] == ranked[0]["board"]]
    if not ranked or digest.several_models:
        return []
    worst = max(ranked, key=lambda each: each["rank"] / each["competitors"])
    where = f"of {worst['competitors']} on {worst['board']}, {worst['dataset']}/"
    return [("Lowest rank", str(worst["rank"]), where + str(worst["difficulty"]))]


def _baseline_tile(digest: Digest) -> list[tuple[str, str, str]]:
    results = [line.comparison["result"] for line in digest.lines if line.comparison]
    if not results:
        return []
    worse, unsure = results.count("fail"), results.count("inconclusive")
    note = f"of {count(len(results), 'case')}" + (f", {unsure} inconclusive" if unsure else "")
    return [("Worse than baseline", str(worse), note)]


def _box(digest: Digest, line: Line, prefix: str) -> Html:
    return tag(
        "article",
        tag(
            "header",
            badge(line.status),
            tag("h3", tag("a", code(digest.name_of(line)), href=f"#{prefix}case-{line.number}")),
        ),
        _figures(line),
        tag("p", _why(line), class_="why"),
        _replay(line),
        _smallest(line),
        _message(line),
        class_="case" if line.status in BAD else "case unsure",
    )


def _others(digest: Digest, lines: Sequence[Line], prefix: str) -> Html | None:
    if not lines:
        return None
    rows = []
    for line in lines:
        outcome = line.row.outcome
        drop = outcome.drop if outcome is not None else None
        rows.append(
            row(
                tag("a", code(digest.name_of(line)), href=f"#{prefix}case-{line.number}"),
                cell(badge(line.status)),
                number(percent(drop)),
                number(percent(line.limit)),
                cell(tag("code", line.replay) if line.replay else _why(line), class_="text"),
            )
        )
    head = ("case", "verdict", "drop", "limit", "replay, or why")
    return tag(
        "details",
        tag("summary", f"{count(len(lines), 'more case')}"),
        table("Further cases", head, rows, "compared"),
    )


def _why(line: Line) -> Content:
    """Where the limit comes from, if that is what was broken: the figures stand above."""
    if line.excess and line.row.verdict:
        return ["limit: ", line.row.verdict["rule"]]
    told = line.first or WORDS[line.status]
    return clipped(told.removesuffix(line.row.case.id).strip(), 600)


def _figures(line: Line) -> Content:
    outcome, limit, compared = line.row.outcome, line.limit, line.comparison
    if outcome is None:
        return None
    pairs = [
        ("clean", percent(outcome.clean)),
        ("attacked", percent(outcome.attacked)),
        ("drop", percent(outcome.drop)),
    ]
    if limit is not None:
        pairs.append(("limit", percent(limit)))
    if line.excess:
        pairs.append(("beyond", f"{100 * line.excess:.1f} points"))
    if compared and compared.get("loss") is not None:
        pairs.append(("against the baseline", f"{points(-compared['loss'] / 100)} points"))
    listed = [tag("div", tag("dt", name), tag("dd", figure)) for name, figure in pairs]
    interval = (line.row.verdict or {}).get("interval")
    drawn = meter(outcome.drop, limit, interval) if limit is not None else None
    return [tag("dl", listed, class_="figures"), drawn]


def _replay(line: Line) -> Content:
    if not line.replay:
        return None
    return tag("pre", tag("code", line.replay), aria_label="replay")


def _message(line: Line) -> Html | None:
    """All that was said, where that is more than the page shows anyway."""
    shown = ("replay: ", "smallest counter-example: ", line.first)
    said = [each.strip() for each in line.text.splitlines() if each.strip()]
    if not [each for each in said if not line.first or not each.startswith(shown)]:
        return None
    return tag(
        "details",
        tag("summary", "Whole message"),
        tag("pre", clipped(line.text.strip(), LONGEST)),
    )


def _smallest(line: Line) -> Html | None:
    """Few changes that suffice, and what they do."""
    found = line.smallest
    if not found:
        return None
    head = counter_example_text.summary(found)
    said = "\n".join(counter_example_text.lines(found))
    return tag("details", tag("summary", head[0].upper() + head[1:]), tag("pre", said))


def _unknown(digest: Digest) -> Html | None:
    if not digest.unknown:
        return None
    head = f"{count(len(digest.unknown), 'test')} never came back"
    return tag(
        "details",
        tag("summary", head),
        tag("ul", [tag("li", code(each)) for each in digest.unknown]),
    )


def _drop(line: Line) -> float:
    assert line.row.outcome is not None
    return line.row.outcome.drop
