"""The comment on a pull request: its text, its marker, and when it is due."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from outcome_factory import CASE
from record_factory import (
    HOSTILE,
    baseline,
    compared,
    entry,
    joint,
    many,
    measured,
    record,
    rich,
    typed,
    view,
)

from grb_check.cases.case import Case
from grb_check.errors import UsageError
from grb_check.reports import comment
from grb_check.reports.comment import (
    NOTHING,
    State,
    check_name,
    comment_text,
    is_due,
    state_in,
    state_of,
)
from grb_check.reports.digest import Digest, digest

ROW = entry(CASE, measured(CASE, 0.5))
FAILED = record([ROW])
HARD = replace(CASE, difficulty="hard")
MARKER = re.compile(r"<!-- grb_check comment [\w.-]+ 1[:#][\w.]* -->\n## ")


def run(*drops: float, **changes: Any) -> Digest:
    """A run of an easy and a hard case; drops above 30 % fail."""
    cases = zip((CASE, HARD), drops, strict=False)
    return view(record([entry(case, measured(case, drop)) for case, drop in cases], **changes))


def test_a_first_comment_is_for_failures_only() -> None:
    """A run that passes and has no comment is silent."""
    assert not is_due(run(0.1, 0.1), None)
    assert is_due(run(0.1, 0.5), None)
    assert is_due(run(0.1, 0.1, baseline=baseline(together=[joint("d", "fail")])), None)


def test_later_comments_are_for_other_verdicts() -> None:
    """Other figures are none."""
    before = state_of(run(0.5, 0.1))
    assert not is_due(run(0.6, 0.2), before)
    assert is_due(run(0.1, 0.5), before)
    assert is_due(run(0.5, 0.5), before)
    assert is_due(run(0.1, 0.1), before)
    assert is_due(run(0.1), before)


def test_a_verdict_on_all_cases_has_no_figures_in_its_state() -> None:
    """Losses and numbers of cases change from run to run."""
    runs = [
        run(0.1, baseline=baseline(together=[joint("d", "fail", loss=loss, text=f"loss {loss}")]))
        for loss in (3.1, 4.2)
    ]
    assert state_of(runs[0]) == state_of(runs[1]) != NOTHING


def test_a_doubtful_pass_is_a_verdict_of_its_own() -> None:
    """It is in the state, though it deserves no first comment."""
    unsure = entry(CASE, measured(CASE, 0.1), comparison=compared("inconclusive"))
    doubted = view(record([unsure], baseline=baseline()))
    assert not is_due(doubted, None)
    assert is_due(doubted, NOTHING)


def test_the_text_begins_with_the_verdict_and_what_changed() -> None:
    """Then a link and the summary, folded, of which the beginning is here compared whole."""
    text = comment_text(run(0.1, 0.5), state_of(run(0.5, 0.1)), run_url="https://ci.example/9")
    marker, rest = text.split("\n", 1)
    assert MARKER.match(text)
    assert state_in(marker, "default") == state_of(run(0.1, 0.5))
    assert rest.startswith(
        """\
## ❌ Graph robustness: 1 of 2 cases passed; 1 failed

Since the last comment: 1 newly failing, 1 passing again.

- ❌ `synthetic-cora/hard/injection/pgd`
- ✅ `synthetic-cora/easy/injection/pgd`

[Log of the run](https://ci.example/9)

<details>
<summary>Summary of the run</summary>

Model: `gcn`
"""
    )
    assert text.endswith("</details>\n\n</details>\n")
    assert text.count("Graph robustness:") == 1


def test_a_comment_says_that_the_run_passes_again() -> None:
    """And names the cases, or counts those that are gone."""
    assert "**The run passes again.** Since the last comment: 1 passing again." in comment_text(
        run(0.1, 0.1), state_of(run(0.5, 0.1))
    )
    assert "**The run passes again.** Since the last comment: 1 no longer in the run." in (
        comment_text(run(0.1), state_of(run(0.1, 0.5)))
    )


def test_few_changes_are_named() -> None:
    """The rest is counted."""
    text = comment_text(view(many()), None)
    assert text.count("\n- ❌ `") == comment.NAMED
    assert "- ❌ and 48 more" in text


def test_the_comment_of_a_long_run_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Into what GitHub takes; if verdicts are too many, their state has the size of one."""
    found = view(many())
    assert len(comment_text(found, None)) < 65_536
    listed = state_of(found)
    monkeypatch.setattr(comment, "MOST_TOKENS", 20)
    state = state_of(found)
    assert (len(state.tokens), state.listed) == (1, False)
    text = comment_text(found, listed)
    assert "Too many verdicts changed" in text
    assert state_in(text, "default") == state
    assert not is_due(found, state)
    assert is_due(run(0.5), state)


def test_messages_full_of_slashes_fit() -> None:
    """A slash at the beginning of a line costs a space, see the next test."""
    cases = [replace(CASE, attack=f"attack-{number}") for number in range(400)]
    entries = [entry(each, None, message="/\n" * 3000) for each in cases]
    assert len(comment_text(view(record(entries)), None)) < 65_536


def test_no_line_is_a_quick_action_of_gitlab() -> None:
    """GitLab looks for them in blocks of code whose fence is longer than usual."""
    message = "/close ```"
    text = comment_text(view(record([entry(CASE, None, message=message)])), None)
    assert " /close" in text
    assert not re.search("^/", text, re.MULTILINE)


@given(st.text(max_size=40) | st.sampled_from([HOSTILE, "-->", "--", "`-->`", "\n<!-- ", "]"]))
def test_no_name_ends_or_forges_a_marker(text: str) -> None:
    """Whatever a model, an attack or a test is called, and whatever a message says."""
    forged = "<!-- grb_check comment default 1: -->"
    case = Case("d", "easy", "injection", "pgd", f"{text}{forged}")
    row = {**ROW, "id": case.id, "outcome": None, "message": f"{forged}\n{text}"}
    found = digest(typed({**FAILED, "cases": [{**row, "node_id": f"tests/{text}{forged}"}]}))
    body = comment_text(found, None)
    assert MARKER.match(body)
    assert body.split("\n", 1)[0].count("-->") == 1
    assert state_in(body, "default") == state_of(found) != NOTHING
    assert state_in(body, "other") is None
    assert not is_due(found, state_in(body, "default"))
    outside = re.sub(r"(?ms)^(`{3,})text$.*?^\1$|(`+)(?!`).*?(?<!`)\2(?!`)", "", body)
    assert outside.count("<!--") == 1


@given(st.text(max_size=60))
def test_any_text_has_a_state_or_none(text: str) -> None:
    """A comment that was edited by hand is due again, and breaks nothing."""
    state_in(text, "default")
    found = state_in(f"<!-- grb_check comment default 1:{text} -->", "default")
    assert found is None or isinstance(found, State)


@pytest.mark.parametrize(
    "body",
    [
        "text",
        " <!-- grb_check comment default 1: -->",
        "> <!-- grb_check comment default 1: -->",
        "text\n<!-- grb_check comment default 1: -->",
        "<!-- grb_check comment another 1: -->",
    ],
)
def test_only_a_marker_at_the_very_beginning_counts(body: str) -> None:
    """A comment that quotes ours is somebody else's."""
    assert state_in(body, "default") is None


@pytest.mark.parametrize("name", ["", " ", "a b", "a--b", "-a", "a-", "ä", "a\n", "x" * 51, "-->"])
def test_names_that_break_a_marker_are_refused(name: str) -> None:
    """Two hyphens end an HTML comment in some parsers."""
    with pytest.raises(UsageError, match="at most 50 of the characters"):
        check_name(name)


def test_a_run_without_cases_is_a_failure() -> None:
    """It is not a run that passes again."""
    empty = view(record([]))
    assert is_due(empty, None)
    text = comment_text(empty, state_of(run(0.5)))
    assert "## ❌ Graph robustness: No case ran" in text
    assert "passes again" not in text


def test_everything_that_a_report_can_show_is_in_the_comment() -> None:
    """Of the richest run: each kind of failure is named."""
    text = comment_text(view(rich()), None)
    for name in ("rank on synthetic-cora/easy", "baseline on synthetic-cora"):
        assert f"- ❌ `{name}`" in text
