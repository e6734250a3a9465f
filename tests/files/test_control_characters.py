"""Texts of files have no control characters once they are read."""

from __future__ import annotations

import unicodedata
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from mutants import new_digest

from grb_check.files.control_characters import SHOWN, fit, fit_all, fit_line
from grb_check.files.typed_json import FileKind, decode, encode

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


class Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file with texts in each place."""

    name: str
    message: str
    named: dict[str, str]


KIND = FileKind(name="test file", type=Content, format=1, wanted="write it again")


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


def test_colons_elsewhere_stay() -> None:
    """In node ids, types and addresses."""
    text = "tests/a.py::test\na ::1\n:: x"
    assert fit(text) == f"tests/a.py::test\na ::1\n{SHOWN}: x"


def test_ordinary_text_stays() -> None:
    """Other scripts, tabs and lines included."""
    text = "naïve 模型 \U0001f600\tx\nsecond"
    assert fit(text) == text
    assert fit("one\r\ntwo") == "one\ntwo"


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


@given(name=ANY_TEXT, message=ANY_TEXT, key=ANY_TEXT)
def test_files_are_read_without_them(name: str, message: str, key: str) -> None:
    """Their digest is that of what is in the file; messages keep their lines."""
    plain = [each.encode("utf-8", "replace").decode() for each in (name, message, key)]
    content = Content(plain[0], plain[1], {plain[2]: plain[0]})
    read = decode(KIND, encode(KIND, content, "1").encode(), "file")
    assert read.name == fit_line(plain[0])
    assert read.message == fit(plain[1])
    assert read.named == {fit_line(plain[2]): fit_line(plain[0])}
    assert new_digest(msgspec.to_builtins(content), Content)
