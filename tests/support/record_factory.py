"""Run records of given figures, as the fields of their files."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import msgspec
from outcome_factory import finding, outcome

from grb_check.cases.case import Case
from grb_check.cases.case_record import CaseRecord
from grb_check.cases.node_ids import case_of, is_node_id, node_path
from grb_check.cases.outcomes import Outcome
from grb_check.cases.shards import RunCases
from grb_check.cases.verdicts import Comparison
from grb_check.gate.limits import Gate, judge
from grb_check.ranking.comparison_models import Boards
from grb_check.reports.digest import Digest, digest
from grb_check.reports.record import Definition, RunRecord, record_of
from grb_check.reports.record_file import encode
from grb_check.settings.settings import Settings

HOSTILE = "<script>alert(1)</script>\x1b[31m\x00\ud800 | `x` *y* @someone #12 ]]> & \u202e"
ATTACKS = (
    ("injection", "rnd"),
    ("injection", "fgsm"),
    ("injection", "pgd"),
    ("modification", "dice"),
    ("modification", "prbcd"),
)
SMALLEST = {
    "repeat": 1,
    "units_before": 37,
    "units_after": 3,
    "clean": 0.8,
    "attacked": 0.47,
    "drop": 0.412,
    "limit": 0.3,
    "minimal": True,
    "tests": 84,
    "added_edges": [[3, 17], [4, 250]],
    "removed_edges": [[1, 2]],
    "injected": [{"node": 2708, "links": [3, 17, 44]}],
    "modified_nodes": [],
    "flipped": [{"target": 5, "class": 2, "before": 2, "after": 6}],
}
ENVIRONMENT = {
    "grb_check": "0.1.0",
    "python": "3.11.7",
    "torch": "2.13.0",
    "pytest": "9.2.0",
    "platform": "Linux",
}
SETTINGS: dict[str, Any] = {
    "models": [],
    "suite": "smoke",
    "datasets": [{"name": "synthetic-cora", "given": "synthetic-cora"}],
    "split": "grb",
    "training": "inductive",
    "features": "grb",
    "data": [],
    "download": False,
    "difficulties": ["easy", "medium", "hard"],
    "attacks": list(ATTACKS),
    "budgets": [],
    "patterns": [],
    "repeats": 3,
    "gate": {"thresholds": [], "max_drop": 0.3, "min_clean": None, "strict_diagnostics": False},
    "expected_failures": [],
    "device": "cpu",
    "given": {"grb_max_drop": "0.3"},
    "origins": {"grb_max_drop": "command line"},
}


def compared(result: str, **rest: Any) -> Comparison:
    """Return a comparison with the baseline with that result."""
    values = {
        "text": f"the comparison says {result}",
        "method": "exact paired test",
        "unit": "targets",
        "n": 300,
        "before": 0.62,
        "after": 0.58,
        "loss": 4.0,
        "low": 2.4,
        "margin": 2.0,
        "statistic": 12.0,
        "p": 0.0004,
        "alpha": 0.0033,
        "detectable": 3.1,
    }
    return Comparison(result=result, **(values | rest))  # type: ignore[arg-type]


def entry(
    case: Case,
    case_outcome: Outcome | None,
    gate: Gate | None = None,
    comparison: Comparison | None = None,
    **changes: Any,
) -> dict[str, Any]:
    """Return a judged case of a record; `changes` go last."""
    fields: dict[str, Any] = {
        "id": case.id,
        "node_id": f"{node_path(case)}::test_attack[{case.cell}]",
        "result": "error",
        "message": "",
        "verdict": None,
        "outcome": None,
        "evidence": None,
    }
    if case_outcome is not None:
        verdict = judge(case_outcome, gate or Gate(max_drop=0.3), comparison)
        passed = verdict.passed
        fields |= {
            "result": "pass" if passed else "fail",
            "message": "" if passed else verdict.message,
            "verdict": asdict(verdict),
            "outcome": msgspec.to_builtins(case_outcome),
        }
        if not passed:
            fields["evidence"] = {
                "artifact": f".grb_check/evidence/{case.attack}.npz",
                "replay": f"python -m grb_check replay .grb_check/evidence/{case.attack}.npz",
                "smallest": None,
            }
    return fields | changes


def measured(case: Case, drop: float, model: str = "gcn", clean: float = 0.8) -> Outcome:
    """Return an outcome of three repeats around that drop."""
    scores = [(clean, round(clean * (1 - share), 2)) for share in (drop - 0.02, drop, drop + 0.02)]
    return outcome(scores, [(0.8, 0.64)] * 3, case, model)


def record(cases: Sequence[Mapping[str, Any]], **changes: Any) -> dict[str, Any]:
    """Return the fields of a record of these cases, as in its file; `changes` go last."""
    with_figures = [
        case_fields
        for case_fields in cases
        if case_fields["outcome"] and is_node_id(case_fields["node_id"])
    ]
    labels = dict.fromkeys(case_fields["outcome"]["model"] for case_fields in with_figures) or [
        "gcn"
    ]
    settings = SETTINGS | {
        "models": [
            {
                "label": label,
                "target": f"mypkg:{label}",
                "args": "{}",
                "source": "",
            }
            for label in labels
        ]
    }
    definitions = {label: Definition(file="models.py", line=7) for label in labels}
    rows = [msgspec.convert(_encodable(case_fields), CaseRecord) for case_fields in cases]
    missing = changes.get("missing", ())
    planned = [planned_case["node_id"] for planned_case in changes.get("planned", ())]
    every = dict.fromkeys([*(row.node_id for row in rows), *missing, *planned])
    built_in = [case for node_id in every if (case := case_of(node_id)) is not None]
    known = [dataset["name"] for dataset in SETTINGS["datasets"]]
    names = dict.fromkeys([*known, *(case.dataset for case in built_in)])
    settings["datasets"] = [{"name": name, "given": name} for name in names]
    pairs = [(case.scenario, case.attack) for case in built_in]
    settings["attacks"] = list(dict.fromkeys([*SETTINGS["attacks"], *pairs]))
    full_record = record_of(
        msgspec.convert(_encodable(settings), Settings),
        rows,
        missing=missing,
        run_cases=RunCases(cases=tuple(built_in)),
        boards=Boards(),
        baseline=None,
        environment=ENVIRONMENT,
        definitions=definitions,
    )
    fields: dict[str, Any] = json.loads(json.dumps(msgspec.to_builtins(full_record)))
    return {**fields, "cases": list(cases), **changes}


def _encodable(value: Any) -> Any:
    """The same builtin types, without the lone surrogates that UTF-8 cannot hold."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {_encodable(name): _encodable(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_encodable(item) for item in value]
    return value


def run_record(fields: Mapping[str, Any]) -> RunRecord:
    """Return the record of these fields."""
    return msgspec.convert(_encodable(dict(fields)), RunRecord)


def view(fields: Mapping[str, Any], name: str = "") -> Digest:
    """Return what reports show of a record of these fields."""
    return digest(run_record(fields), name)


def file_of(fields: Mapping[str, Any]) -> str:
    """Return the text of the file of these fields, with their digest."""
    return encode(run_record(fields))


def baseline(**changes: Any) -> dict[str, Any]:
    """Return the baseline of a record; `changes` go last."""
    return {
        "path": "robustness.json",
        "margin": 2.0,
        "alpha": 0.05,
        "tests": 15,
        "digest": "0" * 16,
        "written": False,
        "requested": False,
        "unused": [],
        "together": [],
        "notes": [],
        "base": None,
        **changes,
    }


def joint(dataset: str, result: str, **changes: Any) -> dict[str, Any]:
    """Return the verdict of a baseline on the cases of a dataset together, of which one is new."""
    comparison = asdict(compared(result, **changes))
    return {
        "model": "",
        "dataset": dataset,
        "compared": 14,
        "cases": 15,
        "comparison": comparison,
    }


def rich() -> dict[str, Any]:
    """Return a run with everything that a report can show."""
    cases = [
        Case("synthetic-cora", level, *attack)
        for level in ("easy", "medium", "hard")
        for attack in ATTACKS
    ]
    drops = [0.05, 0.42, 0.45, 0.16, 0.31, 0.03, 0.33, 0.28, 0.09, 0.2, 0.0, 0.18, 0.52, 0.02, 0.1]
    entries = [
        entry(case, measured(case, drop), comparison=compared("pass", loss=0.3, low=-0.8, p=0.41))
        for case, drop in zip(cases, drops, strict=True)
    ]
    entries[2]["evidence"]["smallest"] = SMALLEST
    entries[3] = entry(cases[3], measured(cases[3], 0.16), comparison=compared("fail"))
    unsure = compared("inconclusive", repeats_needed=9, unit="repeats", n=3, p=0.08)
    entries[8] = entry(cases[8], measured(cases[8], 0.09), comparison=unsure)
    doubted = measured(cases[13], 0.02)
    findings = (finding("no-effect", 1.2), finding("transfer-stronger", 0.09))
    doubted = replace(
        doubted,
        repeats=tuple(replace(repeat, diagnostics=findings) for repeat in doubted.repeats),
        warnings=("the model gives the same answer whatever the edges are",),
    )
    entries[13] = entry(
        cases[13], doubted, comparison=compared("equal", loss=0.0, low=None, p=None)
    )
    trace = (
        "def forward(self, x, edge_index):\nE   RuntimeError: the model's own fault\nmodels.py:7"
    )
    entries[14] = entry(cases[14], None, message=trace)
    entries[11] = entry(cases[11], None, result="skip")
    entries[10] = entry(cases[10], measured(cases[10], 0.0, clean=0.3))
    gone = entries.pop(5)
    return record(
        entries,
        missing=[gone["node_id"], "tests/test_own.py::test_mine[hard]"],
        baseline=baseline(
            unused=["synthetic-cora/full/injection/rnd"],
            together=[joint("synthetic-cora", "fail", loss=3.1, low=2.2)],
            notes=["the baseline was made with torch 2.12.0"],
        ),
        planned=[{"id": row["id"], "node_id": row["node_id"]} for row in [*entries, gone]],
        ranks=record(entries)["ranks"] | _ranks(),
    )


def many(count: int = 400) -> dict[str, Any]:
    """Return a long run: five datasets, four levels, many attacks; every seventh case fails."""
    draw = random.Random(0)
    names = [("modification", f"attack-{number}") for number in range(count // 20)]
    cases = [
        Case(f"dataset-{number}", level, *name)
        for number in range(5)
        for level in ("easy", "medium", "hard", "full")
        for name in names
    ]
    drops = [0.4 if at % 7 == 0 else 0.25 * draw.random() for at in range(len(cases))]
    return record(
        [
            entry(case, measured(case, drop), comparison=compared("pass"))
            for case, drop in zip(cases, drops, strict=True)
        ]
    )


def _ranks() -> dict[str, Any]:
    return {
        "standings": [standing()],
        "of_cases": {},
        "notes": [
            "no rank on synthetic-cora/hard: 1 of 5 cases has no figures",
            "the leaderboard lacks full",
        ],
    }


def standing(**changes: Any) -> dict[str, Any]:
    """Return the rank of a model on a leaderboard; `changes` go last."""
    return {
        "board": "zoo",
        "model": "gcn",
        "label": "",
        "dataset": "synthetic-cora",
        "difficulty": "easy",
        "attack": "",
        "figure": 0.467,
        "rank": 22,
        "competitors": 27,
        "better": {"rank": 21, "name": "GAT", "figure": 0.469},
        "worse": None,
        "attacks": 5,
        "missing": ["injection/tdgia"],
        **changes,
    }
