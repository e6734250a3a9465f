"""Notes below the tables of a report."""

from __future__ import annotations

from dataclasses import replace

from outcome_factory import outcome
from record_factory import entry, record, run_record

from grb_check.cases.case import Case
from grb_check.cases.outcomes import Method
from grb_check.gate.limits import Gate
from grb_check.reports.notes import notes


def test_a_larger_budget_that_leaves_more_is_said() -> None:
    """Of attacks that know the model: what a smaller budget does is within a larger one."""

    def curve(*left: float, method: Method = "adaptive") -> list[str]:
        rows = []
        for budget, share in zip((0.05, 0.1, 0.2), left, strict=True):
            case = Case("d", "full", "modification", f"prbcd+white-box+budget={budget}")
            made = outcome([(0.8, share)], [(0.8, 0.2)], case, "net")
            repeats = tuple(replace(repeat, method=method) for repeat in made.repeats)
            rows.append(entry(case, replace(made, repeats=repeats), Gate(max_drop=1.0)))
        said = notes(run_record(record(rows)).cases, 1)
        return [text for text in said if "larger one missed" in text]

    (text,) = curve(0.567, 0.591, 0.4)
    assert text.startswith("d/full/modification/prbcd+white-box+budget=0.1 leaves 59.1%")
    assert "a budget of 0.05 no more than 56.7%" in text
    assert curve(0.6, 0.6, 0.605) == []
    assert curve(0.567, 0.591, 0.4, method="black-box") == []


def test_a_note_counts_what_an_earlier_run_has_measured() -> None:
    case = Case("d", "full", "injection", "pgd")
    made = outcome([(0.8, 0.5), (0.8, 0.4)], [(0.8, 0.2), (0.8, 0.2)], case, "net")
    first, second = made.repeats
    for repeats, expected in (
        ((first, second), []),
        ((replace(first, measured_before=True), second), ["1 of 2 measurements from the store"]),
    ):
        row = entry(case, replace(made, repeats=repeats), Gate(max_drop=1.0))
        said = notes(run_record(record([row])).cases, 2)
        assert [text.partition(",")[0] for text in said if "from the store" in text] == expected
