"""The report for people: one HTML file that needs no other, no network and no script."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import Final

from grb_check.reports import page_figures, page_tables, page_verdicts
from grb_check.reports.digest import Digest
from grb_check.reports.markup import Html, tag
from grb_check.reports.plain import fit

STYLE: Final = "page.css"
# Nothing is loaded and nothing runs, whatever a name or a message holds.
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def page_text(digests: Sequence[Digest]) -> str:
    """The document, about one run or several, one after the other."""
    heads = [each.headline for each in digests]
    state = "passed" if all(each.green for each in digests) else "failed"
    style = files("grb_check.reports").joinpath(STYLE).read_text(encoding="utf-8")
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{state}: {'; '.join(heads)} - graph robustness"),
        tag("style", Html(style)),
    ]
    several = len(digests) > 1
    runs = [_run(each, f"r{at}-" if several else "") for at, each in enumerate(digests, 1)]
    body = tag("body", tag("div", runs, class_="wrap"))
    page = tag("html", tag("head", head), body, lang="en")
    return f"<!doctype html>\n{page}\n"


def _run(digest: Digest, prefix: str) -> Html:
    sections = [
        (digest.trouble, "broke", page_verdicts.verdicts(digest, prefix)),
        ("Drops", "drops", page_figures.heat_maps(digest, prefix)),
        ("Budget curves", "curves", page_figures.curve_charts(digest, prefix)),
        ("Baseline", "baseline", page_tables.baseline(digest, prefix)),
        ("Ranks", "ranks", page_figures.rank_tables(digest, prefix)),
        ("Summary", "summary", page_figures.summaries(digest, prefix)),
        ("Diagnostics", "diagnostics", page_tables.diagnostics(digest, prefix)),
        ("Settings", "run", page_tables.environment(digest, prefix)),
        ("All cases", "cases", page_tables.all_cases(digest, prefix)),
    ]
    present = [each for each in sections if each[2] is not None]
    links = [tag("li", tag("a", name, href=f"#{prefix}{anchor}")) for name, anchor, _ in present]
    return Html(
        page_verdicts.top(digest)
        + tag("nav", tag("ul", links), aria_label="Parts of the report")
        + tag("main", [made for _, _, made in present])
        + tag("footer", fit(f"Made by grb_check {digest.record['grb_check']}."))
    )
