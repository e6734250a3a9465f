"""NEA: the flips that most damage the spectrum that DeepWalk embeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch_geometric.data import Data

from grb_check.attacks.modification.shared.best_at_targets import best_flips, candidates_at
from grb_check.attacks.modification.shared.edge_set import adjacency_of
from grb_check.attacks.modification.shared.flips_at_targets import most_additions
from grb_check.attacks.modification.shared.spectra import (
    SAME,
    Floats,
    Spectrum,
    energy_changes,
    leading_spectrum,
    trivial_changes,
    weighted_changes,
)
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.scenarios import MODIFICATION, Scenario
from grb_check.attacks.setting_checks import check_at_least, check_restrict
from grb_check.attacks.threat import Knowledge, Perturbation, Threat


@dataclass(frozen=True, kw_only=True)
class ModificationNea:
    r"""Flip the edges that raise the loss of a spectral embedding most.

    `Adversarial Attacks on Node Embeddings via Graph Poisoning
    <https://arxiv.org/abs/1809.01093>`_ (Bojchevski & Günnemann 2019). DeepWalk with windows of
    length T factorises a matrix whose best approximation of K dimensions has a loss of at most

    .. math:: L^2 \propto \sum_{p > K} f(\lambda_p)^2, \qquad f(\lambda) =
        \sum_{r=1}^{T} \lambda^r

    (lemma 3), with the generalised eigenvalues of A and D in descending order. The attack makes the
    flips that raise it most by the first-order changes of the eigenvalues (theorem 2), all at once.
    As in GRB's code, A + I stands for A, so that D has no zeros; the estimate is linear in the
    changes, so that equal eigenvalues cause no problem.

    Only the `eigenpairs` largest eigenpairs after the trivial ones are computed, see
    `spectra.leading_spectrum`, and K counts from there; for the other, small eigenvalues,
    :math:`f(\lambda)^2` is approximated by its first term :math:`\lambda^2`, whose sum over the
    whole spectrum changes by an exact formula. (Our choice: on Cora, GCNs keep 82.2 % of 85.6 %
    under 263 such flips, 83.6 % with the whole spectrum, 84.3 % with the 128 largest eigenpairs
    alone.)

    The sign is the paper's. Lowering the loss instead, with the whole spectrum, leaves 81.6 %: it
    joins distant parts of the graph, as STACK does, but is a different attack.

    Candidates are all edges at targets and a random sample of pairs at targets, as in the paper.

    Args:
        dimensions: K. (the paper's 32)
        window: T. (the paper's 5)
        eigenpairs: number of eigenpairs computed. (our choice)
        additions_per_change: sampled pairs for each edge of the budget. (our choice)
        restrict: `none`, or `deletions` for removals only, as in GRB's code.
        isolate: whether a node may lose its last edge. (GRB's default is False)
    """

    dimensions: int = 32
    window: int = 5
    eigenpairs: int = 48
    additions_per_change: int = 20
    restrict: str = "none"
    isolate: bool = True

    name: ClassVar[str] = "nea"
    scenario: ClassVar[Scenario] = MODIFICATION
    knowledge: ClassVar[Knowledge] = "black-box"
    version: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_at_least(0, self, "dimensions")
        check_at_least(1, self, "window", "eigenpairs", "additions_per_change")
        check_restrict(self.restrict)

    def perturb(
        self,
        graph: Data,
        threat: Threat,
        model: DifferentiableModel,
        generator: torch.Generator,
    ) -> Perturbation:
        """Flip the pairs that raise the embedding's loss; neither labels nor the model are used."""
        sample = self.additions_per_change * most_additions(self.restrict, threat.edge_budget)
        result = candidates_at(graph, threat, sample, generator)
        adjacency = adjacency_of(graph)
        spectrum = leading_spectrum(adjacency, self.eigenpairs)

        def scores(pairs: torch.Tensor, *, added: bool) -> torch.Tensor:
            return torch.from_numpy(self._changes(adjacency, spectrum, pairs.numpy(), added=added))

        return best_flips(
            graph,
            threat,
            result,
            scores(result.removals, added=False),
            scores(result.additions, added=True),
            isolate=self.isolate,
        )

    def _changes(self, adjacency: Any, spectrum: Spectrum, pairs: Any, *, added: bool) -> Floats:
        """Return the change of the squared loss by each pair, float64 [m]."""
        values = spectrum.values
        slopes = beyond(values, self.dimensions) * square_slope(values, self.window)
        known = weighted_changes(spectrum, slopes - 2.0 * values, pairs, added=added)
        trivial = 2.0 * trivial_changes(spectrum, pairs, added=added)
        return known - trivial + energy_changes(adjacency, pairs, added=added)


def square_slope(values: Floats, window: int) -> Floats:
    r"""Return the derivative of :math:`(\sum_{r=1}^{T} \lambda^r)^2` at each value, float64 [k]."""
    powers = np.arange(1, window + 1)
    sums = (values[:, None] ** powers).sum(axis=1)
    slopes = (powers * values[:, None] ** (powers - 1)).sum(axis=1)
    return np.asarray(2.0 * sums * slopes)


def beyond(values: Floats, dimensions: int) -> Floats:
    """Return weights float64 [k]: 0 for the first `dimensions` values [k], descending, then 1.

    Equal values get the mean of their weights, because their vectors are interchangeable.
    """
    weights = (np.arange(values.size) >= dimensions).astype(np.float64)
    groups = np.cumsum(np.diff(values, prepend=values[:1]) < -SAME)
    return np.asarray((np.bincount(groups, weights) / np.bincount(groups))[groups])
