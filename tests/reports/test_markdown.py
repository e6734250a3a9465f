"""The summary for a step of CI or a merge request."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from outcome_factory import CASE
from record_factory import HOSTILE, baseline, compared, entry, measured, record, rich, view

from grb_check.cases.case import Case
from grb_check.reports.markdown import markdown_text, span

CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")


def test_what_broke_comes_first_with_the_command_to_see_it_again() -> None:
    """Message, counter-example and replay in a block; then tables and the baseline."""
    text = markdown_text([view(rich())])
    title = text.split("\n")[1]
    assert title.startswith("## ❌ No more robust than an undefended model against")
    assert title.endswith(
        "; loses up to 4.0 points to `robustness.json` (`synthetic-cora/easy/modification/dice`)"
    )
    assert text.split("\n")[3].startswith("**Failed:** 4 of 16 cases passed; 7 failed")
    assert text.index("What broke") < text.index("Drops on") < text.index("### Baseline")
    assert (
        "1 injected node, 3 links): drop 41.2% > 30.0%\n"
        "python -m grb_check replay .grb_check/evidence/pgd.npz\n```" in text
    )
    assert "| `injection/pgd` | **45.0% ❌** | 27.9% | **52.1% ❌** |" in text
    assert "Compared with `robustness.json`: 1 worse, 1 undecided, 8 not worse, 1 equal" in text
    assert "22nd of 27 (zoo)" in text


@pytest.mark.parametrize("limit", [300, 1_000, 3_000, 10_000])
def test_the_limit_is_kept(limit: int) -> None:
    """Parts that are left out are counted."""
    text = markdown_text([view(rich())], limit)
    assert len(text.encode()) <= limit
    assert ("did not fit here" in text) == (limit < 10_000)


def test_foreign_names_and_messages_are_code() -> None:
    """No mention, no reference to an issue, no HTML and no additional cell."""
    case = Case(f"data{HOSTILE}".replace("/", ""), "easy", "injection", "pgd", HOSTILE)
    fields = record(
        [
            entry(case, measured(case, 0.5, HOSTILE), comparison=compared("new", text=HOSTILE)),
            entry(CASE, None, message=f"{HOSTILE}\n```\n@someone"),
        ]
    )
    lines = markdown_text([view(fields)]).splitlines()
    fence = ""
    for line in lines:
        if fence or line.startswith("```"):
            opened = re.match("`+", line)
            if not fence and opened:
                fence = opened[0]
            elif line == fence:
                fence = ""
            continue
        plain = CODE.sub("", line)
        assert not re.search(r"@someone|#12|<script|\*y\*", plain), line
    assert fence == ""


@given(st.text(st.characters()))
@settings(deadline=None)
def test_code_in_a_line_ends_with_its_text(text: str) -> None:
    """Whatever backticks it has; and it is one line."""
    formatted = span(text)
    assert "\n" not in formatted
    formatted.encode()
    match = re.match("(`+)(?!`)(.*?)(?<!`)\\1(?!`)", formatted)
    assert (match[0] if match else "") == formatted


def runs(*drops: float) -> str:
    """The first line for a run of an easy and a hard case; drops above 30 % fail."""
    cases = [CASE, replace(CASE, difficulty="hard")]
    rows = [entry(case, measured(case, drop)) for case, drop in zip(cases, drops, strict=False)]
    return markdown_text([view(record(rows))]).partition("\n")[0]


def test_the_marker_changes_with_verdicts_and_not_with_figures() -> None:
    """Nor with the order of anything; a case that is gone is a change."""
    assert runs(0.5, 0.1) == runs(0.6, 0.2)
    assert len({runs(0.5, 0.1), runs(0.1, 0.5), runs(0.5, 0.5), runs(0.1, 0.1), runs(0.1)}) == 5


def test_no_line_is_a_quick_action_of_gitlab() -> None:
    """GitLab looks for them in blocks of code whose fence is longer than usual."""
    body = markdown_text([view(record([entry(CASE, None, message="/close ```")]))])
    assert "\n /close" in body
    assert not re.search("^/", body, re.MULTILINE)


@pytest.mark.parametrize(
    ("drop", "result", "state"),
    [(0.5, "pass", "failed"), (0.1, "inconclusive", "unsure"), (0.1, "pass", "passed")],
)
def test_the_marker_says_whether_a_comment_is_due(drop: float, result: str, state: str) -> None:
    """And the title names the largest loss."""
    row = entry(CASE, measured(CASE, drop), comparison=compared(result))
    marker, title, *_ = markdown_text([view(record([row], baseline=baseline()))]).splitlines()
    assert marker.startswith(f"<!-- grb_check {state} ")
    assert title.endswith(f"; loses up to 4.0 points to `robustness.json` (`{CASE.id}`)")
