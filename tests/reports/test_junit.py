"""The leaderboard as JUnit XML: complete, and valid for its readers."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from junit_files import complaints, properties, results, suites
from outcome_factory import CASE
from record_factory import HOSTILE, baseline, entry, measured, record, rich, view

from grb_check.cases.case import Case
from grb_check.reports.junit import junit_text


def text(fields: dict[str, Any]) -> str:
    return junit_text([view(fields)])


@pytest.fixture(scope="module")
def full() -> str:
    return text(rich())


def test_the_strict_schema_takes_it(full: str) -> None:
    """No properties of cases and no unknown attribute."""
    assert complaints(full) == []
    assert complaints(text(record([]))) == []


def test_each_case_has_its_result(full: str) -> None:
    """Failure, error or skip, an error for the lost case; nothing if it passed."""
    case_results = results(suites(full)[0])
    name = "grb.synthetic-cora"
    assert case_results[name, "easy/injection/rnd"] == []
    assert case_results[name, "medium/modification/dice"] == []
    assert case_results[name, "easy/injection/fgsm"] == ["Failure"]
    assert case_results[name, "hard/modification/prbcd"] == ["Error"]
    assert case_results[name, "medium/injection/rnd"] == ["Error"]
    assert case_results[name, "hard/injection/fgsm"] == ["Skipped"]
    assert case_results[name, "baseline"] == ["Failure"]
    assert case_results["grb", "tests/test_own.py::test_mine[hard]"] == ["Error"]


def test_models_and_datasets_have_suites_of_their_own() -> None:
    """Names of cases are unique across suites."""
    cases = [
        replace(CASE, dataset=dataset, model=model)
        for model in ("gat", "gcn")
        for dataset in ("one", "two")
    ]
    drops = {"gat": 0.1, "gcn": 0.2}
    fields = record([entry(case, measured(case, drops[case.model], case.model)) for case in cases])
    parsed = suites(text(fields))
    assert [suite.name for suite in parsed] == [
        "gat on one",
        "gat on two",
        "gcn on one",
        "gcn on two",
    ]
    keys = [key for suite in parsed for key in results(suite)]
    assert len(set(keys)) == 4
    assert keys[0] == ("grb.gat@one", "easy/injection/pgd")
    assert properties(parsed[2])["grb.rank.run.easy"] == "2 of 2, 0.6720"
    assert properties(parsed[1])["grb.rank.run.easy"].startswith("1 of 2, ")


def test_a_baseline_that_was_written_unasked_is_a_failure() -> None:
    """As in the run, so that the user commits it."""
    about = baseline(written=True)
    case_results = results(
        suites(text(record([entry(CASE, measured(CASE, 0.1))], baseline=about)))[0]
    )
    assert case_results["grb.synthetic-cora", "baseline"] == ["Failure"]


@settings(max_examples=40, deadline=None)
@given(st.text(st.characters(), max_size=40))
def test_any_text_makes_a_valid_document(said: str) -> None:
    """Including control characters, surrogates and ends of sections."""
    name = re.sub(r"[/:\s]", "", said)  # no name of a dataset has more than one line
    case = Case(f"data{name}", "easy", "injection", "pgd")
    fields = record(
        [entry(case, None, message=said, id=case.id), entry(CASE, None, message=HOSTILE)]
    )
    assert complaints(text(fields)) == []
