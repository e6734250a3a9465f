"""Texts of files have no control characters once they are read."""

from __future__ import annotations

import unicodedata
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from grb_check.files.text import fit, fit_all, fit_line

ANY_TEXT = st.text(st.characters(codec=None), max_size=20) | st.sampled_from(
    [
        "\x1b[31mred",
        "one\n ::error::x",
        "##[group]",
        "a\r=== 5 passed ===",
        "\x9b2J",
        "a\u202eb",
        "\ud800",
        "one\ntwo",
        "\x85",
    ]
)
VALUES = st.recursive(
    ANY_TEXT | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
)


def shown_raw(text: str, allowed: str = "") -> bool:
    """Whether a terminal would obey a character of the text rather than show it."""
    return any(
        unicodedata.category(each) in ("Cc", "Cs", "Zl", "Zp") for each in text.replace(allowed, "")
    )


@given(ANY_TEXT)
def test_no_character_is_obeyed(text: str) -> None:
    """But tabs, and line feeds where several lines are allowed."""
    assert not shown_raw(fit(text).replace("\t", ""), allowed="\n")
    assert not shown_raw(fit_line(text).replace("\t", ""))
    assert fit(fit(text)) == fit(text)


@given(st.lists(ANY_TEXT | st.sampled_from(["\n", " ", "\t", ":", "::error::", "#", "##["])))
def test_no_line_is_a_workflow_command(parts: list[str]) -> None:
    """As GitHub's runner reads them: `::` after spaces, and the older `##[` anywhere."""
    for line in fit("".join(parts)).split("\n"):
        assert not line.lstrip().startswith("::")
        assert "##[" not in line


@given(VALUES)
def test_whatever_the_nesting(value: Any) -> None:
    """Names of fields included."""

    def texts(part: Any) -> list[str]:
        if isinstance(part, dict):
            return [each for pair in part.items() for item in pair for each in texts(item)]
        return [each for item in part for each in texts(item)] if isinstance(part, list) else [part]

    try:
        made = fit_all({"x": value})
    except ValueError:  # two names would become one
        return
    found = [each for each in texts(made) if isinstance(each, str)]
    assert not any(shown_raw(each.replace("\t", ""), allowed="\n") for each in found)
