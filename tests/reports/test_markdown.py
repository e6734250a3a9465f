"""The summary for a step of CI or a merge request."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from outcome_factory import CASE
from record_factory import HOSTILE, compared, entry, many, measured, record, rich, view

from grb_check.cases.case import Case
from grb_check.reports.markdown import LIMIT, block, markdown_text, span

CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
COMMENT = 65_536  # characters that a comment takes


def test_a_run_that_passed_is_short() -> None:
    """A headline, a table, and the rest folded; compared whole."""
    cases = [replace(CASE, difficulty=level) for level in ("easy", "hard")]
    made = record(
        [entry(case, measured(case, drop)) for case, drop in zip(cases, (0.1, 0.25), strict=True)]
    )
    text = markdown_text([view(made)])
    marker, shown = text.split("\n", 1)
    assert re.fullmatch("<!-- grb_check [0-9a-f]{16} -->", marker)
    assert (
        shown
        == """\
## ✅ Graph robustness: All 2 cases passed

Model: `gcn`

### Drops on `synthetic-cora`

| attack | easy | hard |
| :-- | --: | --: |
| `injection/pgd` | 10.0% | 25.0% |

<details>
<summary>Ranks and averages</summary>

- `delta to the reference GCN over 2 difficulties of 1 dataset: -2.5 +- 2.5 points (no clear difference)`
- `synthetic-cora/easy`: clean 80.0%, mean 76.0%, 3 lowest 76.0%, weighted 73.6%
- `synthetic-cora/hard`: clean 80.0%, mean 70.0%, 3 lowest 70.0%, weighted 64.0%

</details>

<details>
<summary>Settings and versions</summary>

- models: `gcn=mypkg:gcn`
- suite: `smoke`, repeats: 3
- limit: `drop at most 30.0% (command line)`
- `grb_check 0.1.0, python 3.11.7, torch 2.13.0, pytest 9.2.0, platform Linux`

</details>
"""  # noqa: E501
    )


def test_what_broke_comes_first_with_the_command_to_see_it_again() -> None:
    """Message, counter-example and replay in a block; then tables and the baseline."""
    text = markdown_text([view(rich())])
    assert text.split("\n", 1)[1].startswith(
        "## ❌ Graph robustness: 4 of 16 cases passed; 7 failed"
    )
    assert text.index("What broke") < text.index("Drops on") < text.index("### Baseline")
    assert (
        "1 injected node, 3 links): drop 41.2% > 30.0%\n"
        "python -m grb_check replay .grb_check/evidence/pgd.npz\n```" in text
    )
    assert "| `injection/pgd` | **45.0% ❌** | 27.9% | **52.1% ❌** |" in text
    assert "Compared with `robustness.json`: 1 worse, 1 inconclusive, 8 not worse, 1 equal" in text
    assert "22nd of 27 (zoo)" in text


def test_the_pin_and_what_an_update_accepts_stand_below_the_baseline() -> None:
    """The verdict on all cases together, then a loss against each reference."""
    text = markdown_text([view(rich())])
    name = "cases of synthetic-cora"
    told = f"- pin, `14 of 15 {name}`: not worse (`no loss beyond 2 points since the pin v1`)"
    assert told in text
    assert f"- update, `all 15 {name}: loss 0.7 points against the replaced baseline`" in text
    assert f"- update, `12 of 15 {name}: loss 1.6 points against the pin v1`" in text


@pytest.mark.slow
def test_a_long_run_fits_into_a_comment_and_says_what_was_cut() -> None:
    """400 cases with long messages, all of which fail."""
    cases = [Case("d", "easy", "injection", f"attack-{number}") for number in range(400)]
    long = compared("inconclusive", text="x" * 400)
    made = record([entry(case, measured(case, 0.5), comparison=long) for case in cases])
    text = markdown_text([view(made)])
    assert LIMIT - 2_000 < len(text.encode()) <= LIMIT < COMMENT
    assert re.search(r"\*\d+ (lines|attacks) more did not fit here\.\*", text)


@pytest.mark.parametrize("limit", [300, 1_000, 3_000, 10_000])
def test_the_limit_is_kept(limit: int) -> None:
    """Parts that are left out are counted."""
    text = markdown_text([view(rich())], limit)
    assert len(text.encode()) <= limit
    assert ("did not fit here" in text) == (limit < 10_000)


@pytest.mark.slow
def test_several_datasets_fold_their_tables() -> None:
    """Each has the number of failed cases."""
    text = markdown_text([view(many())])
    assert text.count("<summary>80 cases, ") == 5
    assert text.count("<details>") == text.count("</details>")
    assert len(text.encode()) <= LIMIT


def test_foreign_names_and_messages_are_code() -> None:
    """No mention, no reference to an issue, no HTML and no additional cell."""
    case = Case(f"data{HOSTILE}".replace("/", ""), "easy", "injection", "pgd", HOSTILE)
    made = record(
        [
            entry(case, measured(case, 0.5, HOSTILE), comparison=compared("new", text=HOSTILE)),
            entry(CASE, None, message=f"{HOSTILE}\n```\n@someone"),
        ]
    )
    lines = markdown_text([view(made)]).splitlines()
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
    made = span(text)
    assert "\n" not in made
    made.encode()
    found = re.match("(`+)(?!`)(.*?)(?<!`)\\1(?!`)", made)
    assert (found[0] if found else "") == made


@given(st.text(st.sampled_from("`\n x")))
def test_a_block_ends_at_its_last_line(text: str) -> None:
    """No line of the text closes it."""
    first, *lines, last = block(text)
    assert first == f"{last}text"
    assert not [line for line in lines if line.strip().startswith(last)]


def runs(*drops: float) -> str:
    """The first line for a run of an easy and a hard case; drops above 30 % fail."""
    cases = [CASE, replace(CASE, difficulty="hard")]
    rows = [entry(case, measured(case, drop)) for case, drop in zip(cases, drops, strict=False)]
    return markdown_text([view(record(rows))]).partition("\n")[0]


def test_the_marker_changes_with_verdicts_and_not_with_figures() -> None:
    """Nor with the order of anything; a case that is gone is a change."""
    assert runs(0.5, 0.1) == runs(0.6, 0.2)
    assert len({runs(0.5, 0.1), runs(0.1, 0.5), runs(0.5, 0.5), runs(0.1, 0.1), runs(0.1)}) == 5


@given(st.text(max_size=40) | st.sampled_from([HOSTILE, "-->", "--", "\n<!-- "]))
def test_no_name_ends_or_forges_the_marker(text: str) -> None:
    """Whatever a model or a test is called, and whatever a message says."""
    forged = f"{text}\n<!-- grb_check 0123456789abcdef -->"
    row = {**entry(CASE, None, message=forged), "node_id": f"tests/{forged}"}
    body = markdown_text([view(record([row]))])
    outside = re.sub(r"(?ms)^(`{3,})text$.*?^\1$|(`+)(?!`).*?(?<!`)\2(?!`)", "", body)
    assert outside.count("<!--") == 1


def test_no_line_is_a_quick_action_of_gitlab() -> None:
    """GitLab looks for them in blocks of code whose fence is longer than usual."""
    body = markdown_text([view(record([entry(CASE, None, message="/close ```")]))])
    assert "\n /close" in body
    assert not re.search("^/", body, re.MULTILINE)
