"""Summaries count each model and case once, however many tests have it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from outcome_factory import outcome

from grb_check.cases.case import Case
from grb_check.cases.case_record import CaseRecord, each_once
from grb_check.cases.node_ids import node_id_of
from grb_check.ranking.orders import mean_by_attack

CASES = [Case("tiny", level, "injection", "rnd") for level in ("easy", "hard")]


def row(case: Case, node_id: str, model: str = "gcn", attacked: float = 0.4) -> CaseRecord:
    """A case that came back."""
    case_outcome = outcome([(0.8, attacked)], [(0.8, 0.6)], case, model)
    return CaseRecord(id=case.id, node_id=node_id, result="pass", outcome=case_outcome)


@given(st.permutations(range(6)))
def test_the_built_in_test_counts_whatever_the_order(order: list[int]) -> None:
    """Users' own tests of a case count where there is no built-in one, the first of them."""
    easy, hard = CASES
    labelled = Case("tiny", "easy", "injection", "rnd", "gcn")
    rows = [
        row(labelled, node_id_of(labelled)),
        row(easy, "test_a.py::test_first", attacked=0.2),
        row(easy, "test_a.py::test_second", attacked=0.1),
        row(easy, "test_a.py::test_other", model="gin"),
        row(hard, "test_a.py::test_hard"),
        row(hard, "test_b.py::test_hard"),
    ]
    given_rows = [rows[index] for index in order]
    selected = each_once(given_rows)
    assert [given_row for given_row in given_rows if given_row in selected] == selected
    names = {selected_row.node_id for selected_row in selected}
    assert {rows[0].node_id, rows[3].node_id} < names
    assert len(names) == 3
    assert len(names & {rows[4].node_id, rows[5].node_id}) == 1
    (only,) = mean_by_attack(
        [selected_row for selected_row in selected if selected_row.case.difficulty == "easy"]
    )
    assert only.figure == 0.5
