"""The leaderboard of a run as JUnit XML: a suite for each model and dataset.

pytest's `--junitxml` is the report of the run. This one has ranks and averages as properties of
suites, and no properties of cases, which strict readers refuse. Output of junit-xml that violates
their schema is removed: `disabled`, and times with an exponent.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import junit_xml

from grb_check.attacks.names import with_budget
from grb_check.cases.metrics import Figure
from grb_check.cases.node_ids import is_node_id
from grb_check.cases.outcomes import Outcome
from grb_check.errors import count
from grb_check.files.text import fit
from grb_check.gate.baselines.joint import group_name
from grb_check.ranking.averages import Averages
from grb_check.reports.audit import audit_conclusions
from grb_check.reports.case_line import UNSURE, WORDS, Line
from grb_check.reports.digest import Digest, limits_of
from grb_check.reports.plain import columns
from grb_check.reports.properties import curve_points, lowest_properties, note_properties, ranked
from grb_check.reports.rank_words import rank_of, sentence


def junit_text(digests: Sequence[Digest]) -> str:
    """Return the document. Times are in seconds."""
    root = ET.Element("testsuites", {"name": "grb leaderboard"})
    seconds, totals = 0.0, dict.fromkeys(("tests", "failures", "errors"), 0)
    for created in digests:
        for suite in _suites(created):
            element = suite.build_xml_doc()
            spent = sum(case.elapsed_sec or 0.0 for case in suite.test_cases)
            element.attrib.pop("disabled", None)
            element.set("time", f"{spent:.3f}")
            seconds += spent
            for name in totals:
                totals[name] += int(element.get(name, 0))
            root.append(element)
    root.attrib.update({name: str(number) for name, number in totals.items()})
    root.set("time", f"{seconds:.3f}")
    ET.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _suites(digest: Digest) -> list[Any]:
    groups = digest.groups or {("", "grb"): []}
    return [
        junit_xml.TestSuite(
            fit(f"{digest.name}: " if digest.name else "") + digest.title_of(group),
            [
                *_cases(digest, lines, group),
                *_limits(digest, group),
                *(_lost(digest) if not number else ()),
            ],
            properties=_clean(_properties(digest, group, lines)),
        )
        for number, (group, lines) in enumerate(groups.items())
    ]


def _cases(digest: Digest, lines: Iterable[Line], group: tuple[str, str]) -> list[Any]:
    return [_case(line, _class_name(digest, group)) for line in lines]


def _case(line: Line, class_name: str) -> Any:
    outcome, case = line.row.outcome, line.row.case
    # Several tests may have the same case: those of the user are distinguished by their ids.
    suffix = "" if is_node_id(line.row.node_id) else f" [{line.row.node_id}]"
    result = junit_xml.TestCase(
        fit(f"{case.cell}{suffix}"),
        class_name,
        elapsed_sec=round(outcome.seconds, 3) if outcome is not None else None,
        stdout=fit(_table(line, outcome)) if outcome is not None else None,
    )
    reported = line.first or WORDS[line.status]
    if line.status == "fail":
        result.add_failure_info(reported, line.text or reported, "fail")
    elif line.status in ("error", "missing"):
        result.add_error_info(reported, line.text or reported, line.status)
    elif line.status in ("skip", "xfail"):
        result.add_skipped_info(reported)
    return result


def _table(line: Line, outcome: Outcome) -> str:
    """The figures of a case as text: means, then each repeat."""
    head = ("seed", "clean", "attacked", "drop", "method", "seconds")
    rows = [
        (
            str(repeat.seed),
            f"{repeat.victim.clean:.1%}",
            f"{repeat.victim.attacked:.1%}",
            f"{repeat.victim.drop:.1%}",
            repeat.method,
            f"{repeat.seconds:.1f}",
        )
        for repeat in outcome.repeats
    ]
    verdict = line.row.verdict
    lines = [
        f"clean {outcome.clean:.1%} -> attacked {outcome.attacked:.1%}, drop {outcome.drop:.1%} "
        f"+- {100 * outcome.drop_deviation:.1f} ({WORDS[line.status]})"
    ]
    if verdict is not None:
        limit = f"limit {verdict.limit:.1%}: " if verdict.limit is not None else "judged by: "
        lines.append(f"{limit}{verdict.rule}")
    if line.status in UNSURE:
        lines.append(line.first)
    if line.comparison is not None:
        lines.append(f"baseline: {line.comparison.result}: {line.comparison.text}")
    if line.replay:
        lines.append(f"replay: {line.replay}")
    for finding in outcome.findings:
        lines.append(f"diagnostic {finding.name}: {finding.text}")
    lines += columns([head, *rows], right=(0, 1, 2, 3, 5))
    return "\n".join(lines)


def _limits(digest: Digest, group: tuple[str, str]) -> list[Any]:
    """Verdicts on several cases: the joint comparison with the baseline, data."""
    ids, result = digest.ids_of(group), []
    for reference, joint in digest.baseline.joint_tests if digest.baseline is not None else ():
        if joint.name in ids:
            reported = f"{joint.scope}: {joint.comparison.text}"
            result.append(_judged(digest, group, reference, not joint.failed, reported))
    for text in audit_conclusions(digest.record):
        if group_name((text.model, text.dataset)) in ids:
            result.append(_judged(digest, group, "audit", not text.falls, text.text))
    if digest.unasked:
        result.append(_judged(digest, group, "baseline", False, digest.unasked))
    if group[1] in digest.inconsistent:
        result.append(_judged(digest, group, "dataset", False, digest.inconsistent[group[1]]))
    return result


def _judged(digest: Digest, group: tuple[str, str], name: str, passed: bool, reported: str) -> Any:
    case = junit_xml.TestCase(fit(name), _class_name(digest, group), stdout=fit(reported))
    if not passed:
        case.add_failure_info(fit(reported).partition("\n")[0], fit(reported), "fail")
    return case


def _lost(digest: Digest) -> list[Any]:
    """Missing tests of unknown datasets."""
    result = []
    for node_id in digest.unknown:
        class_name = fit(f"grb.{digest.name}" if digest.name else "grb")
        case = junit_xml.TestCase(node_id, class_name)
        case.add_error_info(WORDS["missing"], WORDS["missing"], "missing")
        result.append(case)
    return result


def _class_name(digest: Digest, group: tuple[str, str]) -> str:
    model, dataset = group
    run = f"{digest.name}." if digest.name else ""
    return fit(f"grb.{run}{f'{model}@' if digest.several_models else ''}{dataset}")


def _properties(digest: Digest, group: tuple[str, str], lines: Sequence[Line]) -> dict[str, object]:
    model, dataset = group
    record, settings = digest.record, digest.record.settings
    outcome = next((row.outcome for line in lines if (row := line.row).outcome is not None), None)
    result: dict[str, object] = {
        "grb.model": model,
        "grb.dataset": dataset,
        "grb.version": record.release,
        "grb.suite": settings.suite,
        "grb.repeats": settings.repeats,
    }
    if outcome is not None:
        result |= {"grb.dataset_origin": outcome.origin, "grb.dataset_fingerprint": outcome.dataset}
    result |= {f"grb.environment.{name}": text for name, text in record.environment.items()}
    for number, (text, origin) in enumerate(limits_of(record), 1):
        result[f"grb.gate.{number}"] = f"{text} ({origin})" if origin else text
    result |= note_properties(record)
    for average in digest.summary.averages:
        if (fit(average.model), average.dataset) == group:
            result |= _average_properties(average)
    result |= _rank_properties(digest, group)
    for curve in digest.summary.curves:
        if (fit(curve.model), curve.dataset) == group:
            name = f"{curve.difficulty}/{curve.scenario}/{curve.attack}"
            result[f"grb.curve.{name}"] = curve_points(curve)
    lows = [low for low in digest.summary.lowest if (fit(low.model), low.dataset) == group]
    deltas = [delta for delta in digest.summary.delta if fit(delta.model) == model]
    return result | lowest_properties(lows, deltas)


def _average_properties(average: Averages) -> dict[str, str]:
    where = with_budget(average.difficulty, average.budget)
    attacks = count(average.attacks, "attack")
    return {
        f"grb.clean.{where}": _figure(average.clean),
        f"grb.average.{where}": f"{_figure(average.mean)} over {attacks} and none",
        f"grb.average_3min.{where}": _figure(average.three_lowest),
        f"grb.weighted.{where}": _figure(average.weighted),
    }


def _rank_properties(digest: Digest, group: tuple[str, str]) -> dict[str, str]:
    """Ranks on leaderboards, of the models of the run among each other, and of the attacks."""
    model, dataset = group
    ranks, result = digest.record.ranks, {}
    for standing in ranks.standings:
        if (fit(standing.model), standing.dataset) == group:
            result[f"grb.rank.{standing.board}.{standing.difficulty}"] = (
                f"{rank_of(standing)}: {sentence(standing)}"
            )
    for name, models in digest.summary.comparisons.items():
        for entry in models:
            if fit(entry.name) == model and name.startswith(f"{dataset}/"):
                rank = f"{entry.rank} of {len(models)}, {entry.figure:.4f}"
                result[f"grb.rank.run.{name.removeprefix(f'{dataset}/')}"] = rank
    ids = digest.ids_of(group)
    for name, order in digest.summary.attacks.items():
        about, _, difficulty = name.rpartition("/")
        if about in ids:
            result[f"grb.attack_rank.{difficulty}"] = ranked(order)
    return result


def _figure(figure: Figure) -> str:
    return f"{figure.mean:.4f} +- {figure.deviation:.4f}"


def _clean(properties: Mapping[str, object]) -> dict[str, str]:
    return {fit(name): fit(value) for name, value in properties.items() if value != ""}
