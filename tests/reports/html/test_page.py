"""The HTML page: complete, escaped and accessible."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, replace
from html.parser import HTMLParser
from importlib.resources import files
from itertools import cycle
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from outcome_factory import CASE
from record_factory import (
    HOSTILE,
    SMALLEST,
    baseline,
    compared,
    entry,
    joint,
    many,
    measured,
    record,
    rich,
    view,
)

from grb_check.cases.case import Case
from grb_check.cases.node_ids import node_id_of
from grb_check.files.control_characters import fit
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
FIXED = {"id", "node_id", "right_before", "right_after", "origins"}
FIXED |= {"split", "training", "features"}
VOID = ("meta", "wbr")
AA = 4.5  # contrast that WCAG requires of text
PAIRS = [
    ("text", "page"),
    ("text", "panel"),
    ("muted", "page"),
    ("muted", "panel"),
    ("link", "page"),
    *((kind, f"{kind}-bg") for kind in ("good", "bad", "warn")),
    *((f"h{step}-text", f"h{step}") for step in range(9)),
]


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


def read(made: dict[str, Any]) -> Reader:
    return Reader(page_text([view(made)]))


def test_the_page_is_whole_and_needs_nothing_else() -> None:
    """Tags match, ids are unique, links have targets, nothing is loaded and nothing runs."""
    page = page_text([view(rich())])
    found = Reader(page)
    assert found.open == []
    assert len(found.ids) == len(set(found.ids))
    assert {link.removeprefix("#") for link in found.links} <= set(found.ids)
    assert not {"script", "link", "img", "iframe", "object", "form"} & set(found.tags)
    assert not [name for name in found.attributes if name.startswith("on") or name == "src"]
    assert not re.search(r"url\(|@import|https?:", page)
    assert all(header.get("scope") in ("col", "row") for header in found.headers)
    assert {"header", "nav", "main", "footer", "h1"} <= set(found.tags)


def test_the_verdicts_come_first_then_figures_then_the_run() -> None:
    """Sections are in the order of what readers want to know."""
    found = read(rich())
    assert [each for each in found.ids if not each.startswith("case-")] == [
        "broke",
        "threats",
        "drops",
        "baseline",
        "ranks",
        "summary",
        "diagnostics",
        "run",
        "cases",
    ]
    assert "4 of 16 cases passed; 7 failed" in found.text
    lead = "Most severe failure: synthetic-cora/hard/injection/pgd loses 52.1% of its accuracy"
    assert f"{lead}, 22.1 points over the limit of 30.0%." in found.text
    assert "python -m grb_check replay .grb_check/evidence/fgsm.npz" in found.text


@pytest.mark.parametrize(
    "words",
    [
        "rank 22 of 27 (zoo) > limit 10",
        "RuntimeError: the model's own fault",
        "never came back",
        "tests/test_own.py::test_mine[hard]",
        "Smallest counter-example: 3 of 37 changes (2 edges added, 1 edge removed, 1 injected",
        "edges added: 2\n  3 - 17\n  4 - 250",
        "node 5 (class 2): 2 -> 6",
        "Compared with robustness.json. A loss of up to 2 points is tolerated.",
        "1 unused entrysynthetic-cora/full/injection/rnd",
        "docs/explanation/diagnostics.md#no-effect",
        "the model gives the same answer whatever the edges are",
        "drop at most 30.0% (command line)",
        "failed (clean)",
    ],
)
def test_everything_that_happened_is_reported(words: str) -> None:
    """Besides the figures of the cases."""
    assert words in read(rich()).text


def test_the_pin_and_what_an_update_accepts_are_shown() -> None:
    """A table of the verdicts, and a line for each loss."""
    text = Reader(page_text([view(rich())])).text
    assert "15 entries changed since the pin v1; its tests have an error rate of 5% of" in text
    assert "Cases together, pin v1" in text
    name = "cases of synthetic-cora"
    assert f"all 15 {name}: loss 0.7 points against the replaced baseline" in text
    assert f"12 of 15 {name}: loss 1.6 points against the pin v1" in text


def test_a_baseline_that_compared_nothing_stands_out() -> None:
    """As a failure, which an incomparable case is not."""
    case = Case("d", "easy", "injection", "rnd")
    nothing = joint("d", "incomparable", text="nothing was compared") | {"compared": 0}
    made = record([entry(case, measured(case, 0.1))], baseline=baseline(together=[nothing]))
    text = Reader(page_text([view(made)])).text
    assert "0 of 15 cases of d" in text
    assert "✕ nothing compared" in text


def test_text_from_outside_stays_text() -> None:
    """Names, messages, evidence and settings make no elements and hide nothing."""
    case = Case(f"data{HOSTILE}".replace("/", ""), "easy", "injection", "pgd", HOSTILE)
    kept = {"artifact": HOSTILE, "replay": HOSTILE, "smallest": SMALLEST}
    broken = compared("incomparable", text=HOSTILE, method=HOSTILE)
    made = record(
        [
            entry(case, measured(case, 0.5, HOSTILE), comparison=broken, evidence=kept),
            entry(CASE, None, message=f"{HOSTILE}\n{HOSTILE} again"),
        ],
        missing=[HOSTILE],
        baseline=baseline(path=HOSTILE, unused=[HOSTILE], notes=[HOSTILE]),
    )
    made["environment"]["python"] = HOSTILE
    made["settings"]["data"] = [HOSTILE]
    page = page_text([view(made)])
    page.encode("utf-8")
    found = Reader(page)
    assert "script" not in found.tags
    assert found.text.count("<script>alert(1)") >= 12
    assert not re.search("[\x00-\x08\x0b-\x1f\u202e]", page)


@pytest.mark.slow
@settings(max_examples=40)
@given(st.lists(ODD, min_size=1, max_size=5))
def test_no_text_of_any_field_becomes_markup(texts: list[str]) -> None:
    """Hostile strings in all fields at once are shown literally, escaped exactly once."""
    hostile = [f"<x-y>{text}\"'" for text in texts]
    made = msgspec.convert(with_texts(rich(), cycle(hostile)), RunRecord)
    page = page_text([digest(made, hostile[0])])
    found, harmless = Reader(page), read(rich())
    assert set(found.tags) == set(harmless.tags)
    assert set(found.attributes) == set(harmless.attributes)
    assert not UNFIT.search(page)
    assert all(fit(text) in found.text for text in hostile)


def with_texts(value: Any, texts: Iterator[str]) -> Any:
    """Return the record with these texts in place of all free strings."""
    if isinstance(value, dict):
        return {
            key: each if key in FIXED else with_texts(each, texts) for key, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [with_texts(each, texts) for each in value]
    return next(texts) if isinstance(value, str) and value not in LITERALS else value


def test_a_set_of_graphs_has_one_column() -> None:
    """The only difficulty of a set of graphs is `full`."""
    cases = [
        Case("tu-mutag", "full", "modification", name)
        for name in ("random-flips", "prbcd", "grbcd")
    ]
    found = read(record([entry(case, measured(case, 0.1)) for case in cases]))
    assert "attackfullmodification/random-flips10.0%" in found.text
    assert "broke" not in found.ids


def test_budgets_make_curves_with_their_figures() -> None:
    """A chart has a title and a table with the same figures."""
    cases = [
        Case("synthetic-cora", "easy", "injection", f"{name}+budget={budget}")
        for name in ("pgd", "fgsm")
        for budget in (0.02, 0.05, 0.1)
    ]
    drops = (0.1, 0.2, 0.3, 0.1, 0.25, 0.28)
    made = record([entry(case, measured(case, at)) for case, at in zip(cases, drops, strict=True)])
    found = read(made)
    points = next(each for each in made["curves"] if each["attack"] == "fgsm")["points"]
    assert "curves" in found.ids
    assert found.text.count("drop by budget, with figures in the table below") == 1
    assert "injection/fgsm" + "".join(f"{each['drop']:.1%}" for each in points) in found.text


def test_several_models_and_several_runs_have_ids_of_their_own() -> None:
    """A page about several runs has no id twice."""
    cases = [Case("synthetic-cora", "easy", "injection", "pgd", name) for name in ("gat", "gcn")]
    made = record([entry(case, measured(case, 0.4, case.model)) for case in cases])
    found = Reader(page_text([view(made, "monday"), view(made, "tuesday")]))
    assert found.open == []
    assert len(found.ids) == len(set(found.ids))
    assert {link.removeprefix("#") for link in found.links} <= set(found.ids)
    assert "gat on synthetic-cora" in found.text
    assert "gat, gcn · grb_check 0.1.0 · monday" in found.text


def test_a_run_without_cases_has_a_page() -> None:
    """The page says that no case ran."""
    assert "No case ran" in read(record([])).text


def test_a_shard_counts_the_cases_of_the_others() -> None:
    """The page names the shard and counts planned cases that it does not list."""
    here = entry(CASE, measured(CASE, 0.1))
    others = [replace(CASE, attack=name) for name in ("rnd", "fgsm", "tdgia")]
    planned = [{"id": each.id, "node_id": node_id_of(each)} for each in (CASE, *others)]
    shard = {"index": 2, "count": 4, "plan": "abc"}
    found = read(record([here], shard=shard, planned=planned))
    assert "shard 2 of 4" in found.text
    assert "3 planned cases not listed: they belong to other shards." in found.text


def test_all_results_of_comparisons_are_shown() -> None:
    """Cases that are not worse are folded away."""
    results = ("equal", "pass", "fail", "inconclusive", "incomparable", "new")
    cases = [Case("d", "easy", "injection", f"attack-{result}") for result in results]
    made = record(
        [
            entry(case, measured(case, 0.1), comparison=compared(result))
            for case, result in zip(cases, results, strict=True)
        ]
    )
    text = read(made).text
    for words in ("✕ worse", "? inconclusive", "≠ incomparable", "+ new", "2 cases not worse"):
        assert words in text


@pytest.mark.slow
def test_400_cases_make_a_page_of_less_than_two_megabytes() -> None:
    """The page has every repeat of every case."""
    made = many()
    page = page_text([view(made)])
    assert len(page.encode()) < 2_000_000
    assert len(set(re.findall(r'id="(case-\d+)"', page))) == 400


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast_in_both_schemes(scheme: str) -> None:
    """WCAG AA holds for text, verdicts and every shade of the heat map."""
    style = (
        files("grb_check.reports.html").joinpath("templates/page.css").read_text(encoding="utf-8")
    )
    light, dark = re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    colors = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", light))
    if scheme == "dark":
        colors |= dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", dark))
    low = {
        pair: round(contrast(colors[pair[0]], colors[pair[1]]), 2)
        for pair in PAIRS
        if contrast(colors[pair[0]], colors[pair[1]]) < AA
    }
    assert low == {}


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colours, as in WCAG 2.1."""
    dark, light = sorted(map(luminance, (one, other)))
    return (light + 0.05) / (dark + 0.05)


def luminance(color: str) -> float:
    """Return the relative luminance of a colour, as in WCAG 2.1."""
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_a_comparison_has_its_figures() -> None:
    """They are the accuracies, the loss, its lower end, the detectable loss, p and alpha."""
    comparison = compared("inconclusive", repeats_needed=9)
    assert asdict(comparison)["loss"] == 4.0
    text = read(record([entry(CASE, measured(CASE, 0.1), comparison=comparison)])).text
    assert "62.0%58.0%4.02.43.10.00040.0033" in text
