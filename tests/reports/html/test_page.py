"""The HTML page: complete, escaped and accessible."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import cycle
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from record_factory import (
    many,
    record,
    rich,
    view,
)

from grb_check.files.text import fit
from grb_check.reports.digest import digest
from grb_check.reports.html.page import page_text
from grb_check.reports.record import RunRecord

# Parts of texts that could end an element, an attribute, a style sheet or a template expression.
ODD = st.lists(
    st.sampled_from(
        (
            *"<>&\"'{}%#/=`\\ -!\n\t\r\0\x0b\x1b\x85\ufffe\u202e\u2028aé",
            *("</td>", "</style>", "<script>", "<!--", "]]>", " onload=x ", "&lt;", "\x1b[31m"),
            *("{{ 7 * 7 }}", "{% raw %}", "{#"),
        )
    ),
    max_size=8,
).map("".join)
UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\u202a-\u202e]")
# Values of enumerated fields, and fields of fixed form: these stay as they are.
LITERALS = {"pass", "fail", "error", "skip", "equal", "inconclusive", "incomparable", "new"}
LITERALS |= {"grb", "inductive"}
LITERALS |= {"black-box", "injection", "modification", "easy", "medium", "hard", "full"}
FIXED = {"id", "node_id", "right_before", "right_after", "target_weights", "origins"}
FIXED |= {"split", "training", "features"}
VOID = ("meta", "wbr")


class Reader(HTMLParser):
    """Checks that tags match, and collects ids, links, text and attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.attributes: list[str] = []
        self.headers: list[dict[str, str | None]] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append(tag)
        self.attributes += given
        self.ids += [given["id"] or ""] if "id" in given else []
        self.links += [given["href"] or ""] if "href" in given else []
        self.headers += [given] if tag == "th" else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data.strip("\n")


def read(fields: dict[str, Any]) -> Reader:
    return Reader(page_text([view(fields)]))


def test_the_page_is_whole_and_needs_nothing_else() -> None:
    """Tags match, ids are unique, links have targets, nothing is loaded and nothing runs."""
    page = page_text([view(rich())])
    reader = Reader(page)
    assert reader.open == []
    assert len(reader.ids) == len(set(reader.ids))
    assert {link.removeprefix("#") for link in reader.links} <= set(reader.ids)
    assert not {"script", "link", "img", "iframe", "object", "form"} & set(reader.tags)
    assert not [name for name in reader.attributes if name.startswith("on") or name == "src"]
    assert not re.search(r"url\(|@import|https?:", page)
    assert all(header.get("scope") in ("col", "row") for header in reader.headers)
    assert {"header", "nav", "main", "footer", "h1"} <= set(reader.tags)


@pytest.mark.slow
@settings(max_examples=40)
@given(st.lists(ODD, min_size=1, max_size=5))
def test_no_text_of_any_field_becomes_markup(texts: list[str]) -> None:
    """Hostile strings in all fields at once are shown literally, escaped exactly once."""
    hostile = [f"<x-y>{text}\"'" for text in texts]
    run = msgspec.convert(with_texts(rich(), cycle(hostile)), RunRecord)
    page = page_text([digest(run, hostile[0])])
    reader, harmless = Reader(page), read(rich())
    assert set(reader.tags) == set(harmless.tags)
    assert set(reader.attributes) == set(harmless.attributes)
    assert not UNFIT.search(page)
    assert all(fit(text) in reader.text for text in hostile)


def with_texts(value: Any, texts: Iterator[str]) -> Any:
    """Return the record with these texts in place of all free strings."""
    if isinstance(value, dict):
        return {
            key: item if key in FIXED else with_texts(item, texts) for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [with_texts(item, texts) for item in value]
    return next(texts) if isinstance(value, str) and value not in LITERALS else value


def test_a_run_without_cases_has_a_page() -> None:
    """The page says that no case ran."""
    assert "No case ran" in read(record([])).text


@pytest.mark.slow
def test_400_cases_make_a_page_of_less_than_two_megabytes() -> None:
    """The page has every repeat of every case."""
    fields = many()
    page = page_text([view(fields)])
    assert len(page.encode()) < 2_000_000
    assert len(set(re.findall(r'id="(case-\d+)"', page))) == 400
