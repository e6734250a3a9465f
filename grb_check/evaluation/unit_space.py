"""The space in which attacks search for features of data whose columns have units of their own.

There each column runs from -1 to 1, so that what an attack finds does not depend on the units that
the data are given in. What it has found is converted back, and rounded to what its threat allows.
"""

from __future__ import annotations

from dataclasses import replace

from torch_geometric.data import Data

from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.threat import Perturbation, Threat
from grb_check.gradients.rescaled import Rescaled


def graph_in_units(threat: Threat, graph: Data) -> Data:
    """Return a view of a graph with its features in units; itself if the threat has one range."""
    if threat.columns is None:
        return graph
    result = graph.clone()
    result.x = threat.columns.to_units(graph.x)
    return result


def model_in_units(threat: Threat, model: DifferentiableModel) -> DifferentiableModel:
    """Return a model that is asked with features in units."""
    return model if threat.columns is None else Rescaled(model, threat.columns.from_units)


def threat_in_units(threat: Threat) -> Threat:
    """Return a threat of features in units."""
    if threat.columns is None:
        return threat
    return replace(threat, feature_range=(-1.0, 1.0), columns=threat.columns.in_units())


def to_units(threat: Threat, perturbation: Perturbation) -> Perturbation:
    """Return a perturbation of the data as one in units."""
    if threat.columns is None:
        return perturbation
    columns = threat.columns
    injected, modified = (
        rows if not rows.numel() else columns.to_units(rows)
        for rows in (perturbation.injected_x, perturbation.modified_x)
    )
    return replace(perturbation, injected_x=injected, modified_x=modified)


def from_units(threat: Threat, perturbation: Perturbation) -> Perturbation:
    """Return a perturbation made in units as one of the data.

    Args:
        threat: of the data.
        perturbation: whose features are in units.
    """
    if threat.columns is None:
        return perturbation
    columns = threat.columns
    injected, modified = (
        rows if not rows.numel() else columns.rounded(columns.from_units(rows.float()))
        for rows in (perturbation.injected_x, perturbation.modified_x)
    )
    return replace(perturbation, injected_x=injected, modified_x=modified)
