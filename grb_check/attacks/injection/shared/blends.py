"""Features to start from: blends between the targets' own and a class's, and rows of the data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from torch import Tensor
from torch.nn import functional as F

from grb_check.attacks.injection.shared.domains import domain_of
from grb_check.attacks.injection.shared.injected_nodes import (
    Injected,
    InjectionQuestion,
    LinkedNodes,
)
from grb_check.attacks.injection.shared.links import defective_links, no_links

TARGET_SHARES: Final = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)  # of the targets' mean in a blend
SCALES: Final = (1.0, 2.0, 4.0, 16.0)  # of a blend, in median norms of the data's rows
LINKS_AT_ONCE: Final = 10_000  # links, whose rows are in memory at a time
MOST_ROWS: Final = 5_000  # of the data, among which the nearest is looked for


@dataclass(frozen=True)
class Blend:
    r"""Where the features of every injected node start.

    An injected node's row is

    .. math:: s \left(a \hat{m} + (1 - a) \hat{c}\right)

    with the mean m of its targets' rows, and the mean c of the rows of the class that its targets
    are closest to becoming, less that of all nodes; both of the data's median norm. Without a scale
    it is the row of the data in whose direction that lies most nearly: no test of features alone
    can tell such a row from those of the data.

    Attributes:
        share: a.
        scale: s; None for a row of the data.
    """

    share: float
    scale: float | None


BLENDS: Final = tuple(Blend(*both) for both in product(TARGET_SHARES, (*SCALES, None)))


def best_blend(
    question: InjectionQuestion, probabilities: Tensor, blends: Sequence[Blend] = BLENDS
) -> tuple[Injected, Blend]:
    """Return the blend to which the model's answer is the worst, and which it is.

    Targets are grouped as TDGIA does in a single round.

    Args:
        question: of the model.
        probabilities: float [t, c] of the targets' classes on the clean graph.
        blends: to try.
    """
    graph, threat = question.graph, question.threat
    links = defective_links(graph, no_links(), threat, probabilities, threat.injected_nodes)
    nodes = LinkedNodes(question, links)
    rows = _rows(nodes, probabilities, blends)
    answers = ((nodes.asked(features), blend) for features, blend in rows)
    return max(answers, key=lambda answer: answer[0].value)


def _rows(
    nodes: LinkedNodes, probabilities: Tensor, blends: Sequence[Blend]
) -> Iterator[tuple[Tensor, Blend]]:
    """Features float [n, d] of each blend."""
    question = nodes.question
    own, others = own_rows(nodes), _rows_of_classes(nodes, probabilities)
    domain = domain_of(question.threat)
    for blend in blends:
        rows = blend.share * own + (1 - blend.share) * others
        if blend.scale is None:
            yield domain.rounded(_nearest(question.graph.x, rows)), blend
        else:
            yield domain.rounded(blend.scale * rows), blend


def _rows_of_classes(nodes: LinkedNodes, probabilities: Tensor) -> Tensor:
    """Return c of `Blend` for each injected node, float [n, d]."""
    x, labels = nodes.question.graph.x, nodes.question.graph.y
    classes = F.one_hot(labels, probabilities.shape[1]).to(x)
    means = (classes.T @ x) / classes.sum(0).clamp(min=1)[:, None]
    others = probabilities.scatter(1, nodes.question.labels[:, None], 0.0)
    towards = nodes.sums(others[nodes.ends]).argmax(1)
    return _scaled(x, (means - x.mean(0))[towards])


def own_rows(nodes: LinkedNodes) -> Tensor:
    """Return the mean of the nodes that each injected node is linked to, float [n, d].

    Of the data's median norm.
    """
    x = nodes.question.graph.x
    rows = x.new_zeros((nodes.count, x.shape[1]))
    new, old = nodes.links.to(x.device)
    for some_new, some_old in zip(new.split(LINKS_AT_ONCE), old.split(LINKS_AT_ONCE), strict=True):
        rows.index_add_(0, some_new, x[some_old])
    return _scaled(x, rows)


def _scaled(x: Tensor, rows: Tensor) -> Tensor:
    """Return the rows with the median norm of the rows of x."""
    norm: Tensor = x.norm(dim=1).median()
    return F.normalize(rows, dim=1) * norm


def _nearest(x: Tensor, rows: Tensor) -> Tensor:
    """Return for each of the rows float [n, d] the row of x of the largest cosine with it."""
    some = x[:: 1 + (x.shape[0] - 1) // MOST_ROWS]
    best: Tensor = (rows @ F.normalize(some, dim=1).T).argmax(1)
    return some[best]
