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
from record_factory import HOSTILE, baseline, entry, many, measured, record, rich, view

from grb_check.cases.case import Case
from grb_check.reports.junit_view import junit_text


def text(made: dict[str, Any]) -> str:
    return junit_text([view(made)])


@pytest.fixture(scope="module")
def full() -> str:
    return text(rich())


def test_the_strict_schema_takes_it(full: str) -> None:
    """No properties of cases and no unknown attribute."""
    assert complaints(full) == []
    assert complaints(text(record([]))) == []


def test_junitparser_counts_the_cases_and_what_was_judged_beside_them(full: str) -> None:
    """15 cases, a limit on a rank, the baseline, its pin, and a lost test of the user."""
    (suite,) = suites(full)
    assert (suite.name, suite.tests) == ("synthetic-cora", 19)
    assert (suite.failures, suite.errors, suite.skipped) == (9, 3, 1)


def test_each_case_has_its_result(full: str) -> None:
    """Failure, error or skip, an error for the lost case; nothing if it passed."""
    found = results(suites(full)[0])
    name = "grb.synthetic-cora"
    assert found[name, "easy/injection/rnd"] == []
    assert found[name, "medium/modification/dice"] == []
    assert found[name, "easy/injection/fgsm"] == ["Failure"]
    assert found[name, "hard/modification/prbcd"] == ["Error"]
    assert found[name, "medium/injection/rnd"] == ["Error"]
    assert found[name, "hard/injection/fgsm"] == ["Skipped"]
    assert found[name, "rank [easy]"] == ["Failure"]
    assert found[name, "baseline"] == ["Failure"]
    assert found[name, "pin"] == []
    assert found["grb", "tests/test_own.py::test_mine[hard]"] == ["Error"]


def test_the_first_line_of_the_verdict_is_the_message(full: str) -> None:
    """Most readers show nothing else."""
    case = next(each for each in suites(full)[0] if each.name == "easy/injection/fgsm")
    (failure,) = case.result
    assert failure.message.startswith("drop 42.1% > limit 30.0%")
    assert failure.message.endswith("synthetic-cora/easy/injection/fgsm")
    assert "\n" not in failure.message
    assert "clean 80.0% -> attacked 46.3%, drop 42.1%" in case.system_out
    assert "replay: python -m grb_check replay .grb_check/evidence/fgsm.npz" in case.system_out


def test_ranks_averages_and_origins_are_properties_of_the_suite(full: str) -> None:
    """As in the record; no rank for a model that is not ranked."""
    found = properties(suites(full)[0])
    assert found["grb.rank.zoo.easy"].startswith("22 of 27: 22nd of 27 (zoo), after GAT 46.9%")
    assert found["grb.average.easy"].endswith("over 5 attacks and none")
    assert found["grb.gate.1"] == "drop at most 30.0% (command line)"
    assert found["grb.version"] == "0.1.0"
    assert found["grb.environment.torch"] == "2.13.0"
    assert found["grb.lowest_black_box.synthetic-cora/easy/injection"].startswith(
        "injection/pgd 0.44"
    )
    assert not [name for name in found if name.startswith("grb.rank.") and "hard" in name]
    assert "grb.average.medium" not in found  # a case was lost


def test_models_and_datasets_have_suites_of_their_own() -> None:
    """Names of cases are unique across suites."""
    cases = [
        replace(CASE, dataset=dataset, model=model)
        for model in ("gat", "gcn")
        for dataset in ("one", "two")
    ]
    made = record([entry(case, measured(case, 0.1, case.model)) for case in cases])
    made["ranks"]["comparisons"] = [
        {
            "group": "one/easy",
            "attack": "",
            "attacks": 1,
            "models": [
                {"rank": 1, "name": "gat", "accuracy": 0.75},
                {"rank": 2, "name": "gcn", "accuracy": 0.7},
            ],
        }
    ]
    found = suites(text(made))
    assert [each.name for each in found] == ["gat on one", "gat on two", "gcn on one", "gcn on two"]
    keys = [key for each in found for key in results(each)]
    assert len(set(keys)) == 4
    assert keys[0] == ("grb.gat@one", "easy/injection/pgd")
    assert properties(found[2])["grb.rank.run.easy"] == "2 of 2, 0.7000"
    assert "grb.rank.run.easy" not in properties(found[1])


def test_a_baseline_that_was_written_unasked_is_a_failure() -> None:
    """As in the run, so that the user commits it."""
    about = baseline(written=True)
    found = results(suites(text(record([entry(CASE, measured(CASE, 0.1))], baseline=about)))[0])
    assert found["grb.synthetic-cora", "baseline"] == ["Failure"]


def test_several_tests_of_one_case_have_several_names() -> None:
    """GitLab shows only one of several with the same name."""
    own = entry(CASE, measured(CASE, 0.1), node_id="tests/test_own.py::test_mine")
    found = results(suites(text(record([own, entry(CASE, measured(CASE, 0.1))])))[0])
    assert sorted(name for _, name in found) == [
        "easy/injection/pgd",
        "easy/injection/pgd [tests/test_own.py::test_mine]",
    ]


def test_several_runs_stand_beside_each_other() -> None:
    """They are named after their files, so that no case hides another."""
    made = rich()
    document = junit_text([view(made, "one"), view(made, "two")])
    assert complaints(document) == []
    assert [each.name for each in suites(document)] == [
        "one: synthetic-cora",
        "two: synthetic-cora",
    ]
    keys = [key for each in suites(document) for key in results(each)]
    assert len(keys) == len(set(keys)) == 38


def test_times_have_no_exponent() -> None:
    """The schema refuses exponents, which junit-xml writes."""
    made = measured(CASE, 0.1)
    quick = replace(made, repeats=tuple(replace(each, seconds=1e-7) for each in made.repeats))
    assert complaints(text(record([entry(CASE, quick)]))) == []


@pytest.mark.slow
def test_400_cases_are_valid() -> None:
    """Five suites of eighty."""
    document = text(many())
    assert complaints(document) == []
    assert [each.tests for each in suites(document)] == [80] * 5


@settings(max_examples=40, deadline=None)
@given(st.text(st.characters(), max_size=40))
def test_any_text_makes_a_valid_document(said: str) -> None:
    """Including control characters, surrogates and ends of sections."""
    case = Case("data" + re.sub("[/:]", "", said), "easy", "injection", "pgd")
    made = record([entry(case, None, message=said, id=case.id), entry(CASE, None, message=HOSTILE)])
    assert complaints(text(made)) == []
