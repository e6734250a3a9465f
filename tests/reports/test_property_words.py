"""What reports say of properties."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest
from record_factory import record, typed, view

from grb_check.cases.expected_cases import Result
from grb_check.cases.properties import Found
from grb_check.reports.html.page import page_text
from grb_check.reports.markdown import markdown_text
from grb_check.reports.property_words import WORDS, properties_headline, says

HOSTILE = "</code><script>alert(1)</script>"


def row(name: str, result: str, **found: Any) -> dict[str, Any]:
    kind = result if result in ("pass", "fail", "skip") else "fail"
    return {
        "node_id": f"grb::gcn::test_conformance[{name}]",
        "model": "gcn",
        "name": name,
        "result": result,
        "message": "why",
        "found": msgspec.to_builtins(Found(name=name, result=kind, **found)),  # type: ignore[arg-type]
    }


BROKEN = row(
    "edge-order",
    "fail",
    message=HOSTILE,
    nodes=3,
    edges=((0, 1), (1, 0), (2, 2)),
    code=("Data(", f"    x={HOSTILE},", ")"),
)


def test_every_result_has_words() -> None:
    """In the order in which they are told."""
    assert set(WORDS) == set(get_args(Result))


@pytest.mark.parametrize(
    ("results", "headline"),
    [
        ([], ""),
        (["pass"], "1 property passed"),
        (["pass", "pass"], "All 2 properties passed"),
        (["skip", "fail", "pass"], "1 of 3 properties passed; 1 failed, 1 skipped"),
        (
            ["xpass", "xfail"],
            "0 of 2 properties passed; 1 passed unexpectedly, 1 failed as expected",
        ),
    ],
)
def test_the_headline_counts(results: list[str], headline: str) -> None:
    """What did not pass is told by its kind."""
    rows = [row("edge-order", each) for each in results]
    assert properties_headline(typed(record([], properties=rows))) == headline


def test_a_property_of_another_release_has_no_words() -> None:
    """Its record is still read."""
    rows = [row("hubs", "pass"), row("speed", "pass")]
    known, unknown = typed(record([], properties=rows)).properties
    assert says(known)
    assert says(unknown) == ""


def test_reports_of_a_run_of_properties_alone() -> None:
    """The digest is green only if none is broken; texts and code are escaped."""
    assert view(record([], properties=[row("hubs", "pass"), row("scale", "skip")])).green
    digest = view(record([], properties=[row("hubs", "pass"), BROKEN]))
    assert not digest.green
    assert digest.headline == "1 of 2 properties passed; 1 failed"
    page = page_text([digest])
    assert HOSTILE not in page
    assert page.count("<line ") >= 1
    assert 'class="loop"' in page
    text = markdown_text([digest])
    assert "| `gcn` | `edge-order` | failed |" in text
    assert "`edge-order` fails on:" in text
