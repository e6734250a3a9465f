"""The page about a history: what it draws, marks and says."""

from __future__ import annotations

import re

from history_factory import CASES, past_run
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import html as lxml_html
from msgspec.structs import replace
from record_factory import HOSTILE

from grb_check.reports.history import PastCase, PastRun
from grb_check.reports.html.trends import (
    BOTTOM,
    HEIGHT,
    LEFT,
    MOST,
    WIDTH,
    Chart,
    trend,
    trend_text,
)


def charts(runs: list[PastRun]) -> list[Chart]:
    groups = trend(runs).groups
    return [chart for levels in groups.values() for found in levels.values() for chart in found]


def one(run: PastRun, **changes: object) -> PastRun:
    """The run with another first case."""
    first: PastCase = replace(run.cases[0], **changes)
    return replace(run, cases=(first, *run.cases[1:]))


def test_cases_are_grouped_by_model_dataset_and_difficulty() -> None:
    """A chart for each attack; a model that came later has its own group."""
    later = past_run(1, [0.1] * 4)
    other = [replace(each, model="gat") for each in later.cases]
    made = trend([past_run(0, [0.1] * 4), replace(later, cases=(*later.cases, *other))])
    assert {group: [*levels] for group, levels in made.groups.items()} == {
        "gcn on synthetic-cora": ["easy", "hard"],
        "gat on synthetic-cora": ["easy", "hard"],
    }
    names = [chart.name for chart in made.groups["gcn on synthetic-cora"]["easy"]]
    assert names == ["injection/rnd", "injection/pgd"]


def test_a_failure_has_another_shape_than_a_pass() -> None:
    """Its title says commit, date, figures and verdict; it is not told by colour alone."""
    runs = [past_run(0, [0.1]), past_run(1, [0.5]), past_run(2, [0.1])]
    (chart,) = charts([*runs[:2], one(runs[2], status="not judged")])
    assert [mark.kind for mark in chart.marks] == ["good", "bad", "unsure"]
    assert chart.failures == 1
    assert re.fullmatch(
        r"0000000, 2026-03-02: drop 50\.\d%, limit 30\.0%, failed", chart.marks[1].title
    )
    page = trend_text([*runs[:2], one(runs[2], status="not judged")], "1")
    shapes = [r"<circle[^>]*><title>0000000, 2026-03-01", r"<path d=[^>]*cross\"><title>0000000"]
    assert all(len(re.findall(shape, page)) == 1 for shape in shapes)


def test_a_run_without_figures_breaks_the_line_and_is_marked_at_the_top() -> None:
    """A case that ended in an error has no drop."""
    (chart,) = charts(
        [past_run(day, [drop]) for day, drop in enumerate([0.1, 0.1, None, 0.1, 0.1])]
    )
    assert [len(part) for part in chart.drops] == [2, 2]
    assert [len(part) for part in chart.limits] == [2, 2]
    assert [len(part) for part in chart.bands] == [4, 4]
    assert chart.marks[2].kind == "bad"
    assert chart.marks[2].y == min(y for _, y in chart.steps)
    assert "no figures, ended in an error" in chart.marks[2].title


shares = st.none() | st.floats(-1.0, 1.0)


@settings(max_examples=40)
@given(st.lists(st.tuples(shares, shares, shares), min_size=1, max_size=6))
def test_everything_is_drawn_inside(drawn: list[tuple[float | None, ...]]) -> None:
    """Drops below 0 and limits above them included."""
    base = past_run(0, [0.1])
    runs = []
    for drop, other, limit in drawn:
        interval = None if drop is None or other is None else (min(drop, other), max(drop, other))
        level = None if limit is None else abs(limit)
        runs.append(one(base, drop=drop, interval=interval, limit=level))
    (chart,) = charts(runs)
    points = [(mark.x, mark.y) for mark in chart.marks]
    points += [point for part in (*chart.drops, *chart.bands, *chart.limits) for point in part]
    assert len(chart.marks) == len(runs)
    assert all(LEFT <= x <= WIDTH and 0 <= y <= HEIGHT - BOTTOM for x, y in points)


def test_a_change_of_versions_is_marked() -> None:
    """Where it happened, with both versions."""
    before, after = past_run(0, [0.1]), past_run(1, [0.1])
    newer = {**after.environment, "torch": "2.14.0", "platform": "other"}
    made = trend(
        [before, replace(after, environment=newer), replace(past_run(2, [0.1]), environment=newer)]
    )
    assert [(each.text, each.run.commit[-1]) for each in made.updates] == [
        ("torch 2.13.0 → 2.14.0", "1")
    ]
    assert made.updates[0].x == charts(list(made.runs))[0].marks[1].x


def test_the_page_says_what_the_last_run_changed() -> None:
    """Cases that fail, that pass again, and that are gone."""
    runs = [past_run(0, [0.1, 0.5, 0.1]), past_run(1, [0.5, 0.1])]
    assert trend(runs).news == [
        "Newly failing: gcn@synthetic-cora/easy/injection/rnd.",
        "Passing again: gcn@synthetic-cora/easy/injection/pgd.",
        "No longer run: gcn@synthetic-cora/hard/injection/rnd.",
    ]
    assert trend(runs[:1]).news == []


def test_many_runs_are_thinned_out_to_the_worst() -> None:
    """No failure disappears, and the page stays small; it says so."""
    base = past_run(0, [0.1] * len(CASES))
    failed = one(base, status="fail", drop=0.6)
    runs = [failed if day == 777 else base for day in range(1000)]
    (chart, *_) = charts(runs)
    assert len(chart.marks) == MOST
    assert [mark.kind for mark in chart.marks].count("bad") == chart.failures == 1
    page = trend_text(runs, "1")
    assert "Of each 10 runs a chart shows the worst" in page
    assert len(page) < 25_000 * len(CASES) + 40_000  # 5 MB for 200 cases


def test_the_page_is_whole_and_escapes_names() -> None:
    """One document that runs no script, whatever a model is named."""
    run = one(past_run(0, [0.1, 0.5]), model=HOSTILE)
    page = trend_text([run, past_run(1, [0.5])], "1.2.3")
    tree = lxml_html.document_fromstring(page)
    assert tree.xpath("//script") == []
    assert "1.2.3" in tree.xpath("string(//footer)")
    assert len(tree.xpath("//section[@id='runs']//tbody/tr")) == 2
    assert tree.xpath("string(//title)") == "robustness over 2 runs - graph robustness"
