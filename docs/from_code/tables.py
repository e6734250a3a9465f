"""Tables of suites, models, datasets and properties."""

from __future__ import annotations

from collections.abc import Iterable

from markdown_text import codes, table

from grb_check.cases.suites import SUITES
from grb_check.conformance.properties import PROPERTIES
from grb_check.datasets.catalogue import GRAPH_SETS, known_names
from grb_check.datasets.published import SIZES, sizes
from grb_check.models.zoo import CONTRASTIVE, SIMPLE, ZOO, ZooModel


def suites() -> str:
    """Return what each suite runs, and how its models are trained."""
    rows = [
        (
            f"`{name}`",
            codes(suite.datasets),
            codes(suite.difficulties),
            codes("/".join(pair) for pair in suite.attacks),
            suite.repeats,
            f"{suite.split or '-'}, {suite.training}, {suite.features or '-'}",
        )
        for name, suite in SUITES.items()
    ]
    head = ("suite", "datasets", "difficulties", "attacks", "repeats", "split, training, features")
    return table(head, rows)


def suites_of(scenario: str, name: str) -> list[str]:
    """Return the suites that have an attack."""
    return [suite for suite, each in SUITES.items() if (scenario, name) in each.attacks]


def properties() -> str:
    """Return one row for each property of the suite `conformance`."""
    kinds = {(True, True): "nodes, graphs", (True, False): "nodes", (False, True): "graphs"}
    rows = [
        (f"[`{each.name}`]({each.name}.md)", each.says, kinds[each.of_nodes, each.of_graphs])
        for each in PROPERTIES.values()
    ]
    return table(("property", "", "models that classify"), rows)


def models() -> str:
    """Return the reference models and defences."""
    return model_table((*ZOO.values(), *SIMPLE))


def encoders() -> str:
    """Return the models of the contrastive protocol."""
    return model_table(CONTRASTIVE)


def model_table(rows: Iterable[ZooModel]) -> str:
    """Return one row for each factory."""
    lines = [(f"`{each.target}`", each.title, each.about) for each in rows]
    return table(("factory", "in papers' tables", ""), lines)


def datasets() -> str:
    """Return the known datasets with their published sizes."""
    rows = []
    for name in (*known_names(), *GRAPH_SETS):
        size = sizes()[name]
        rows.append((f"`{name}`", *(f"{size[figure]:,}" for figure in SIZES)))
    return table(("name", *SIZES), rows)
