"""The table of models: a new model is its file and one row here.

Nothing here imports torch, so that names can be listed and checked before a model is built.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from grb_check.errors import unknown

_LN: Final = "layer normalisation on the input and after each layer but the last"
_AT: Final = "adversarial training with FGSM injection"


@dataclass(frozen=True)
class ZooModel:
    """One model.

    Attributes:
        name: of its factory in `grb_check.models`.
        module: of the factory, below `grb_check.models`.
        title: in tables; that of GRB's tables for models that they have.
        about: one line for `--grb-list=models`.
        version: raised whenever the model changes: its layers, its hyper-parameters, its training,
            or the version of the attack that it is trained with.
    """

    name: str
    module: str
    title: str
    about: str
    version: int = 1

    @property
    def described(self) -> str:
        """Name and version, as written to disk."""
        return f"{self.name} v{self.version}"

    @property
    def target(self) -> str:
        """Its value for `--grb-model`."""
        return f"grb_check.models:{self.name}"


_ENTRIES: Final = (
    ZooModel("gcn", "reference.gcn", "GCN", "graph convolutions (Kipf & Welling 2017)"),
    ZooModel("gcn_ln", "reference.gcn", "GCN+LN", f"GCN, {_LN}"),
    ZooModel("gcn_at", "defences.adversarial", "GCN+AT", f"GCN, {_AT}"),
    ZooModel("gat", "reference.gat", "GAT", "attention over neighbours (Veličković et al. 2018)"),
    ZooModel("gat_ln", "reference.gat", "GAT+LN", f"GAT, {_LN}"),
    ZooModel("gat_at", "defences.adversarial", "GAT+AT", f"GAT, {_AT}"),
    ZooModel(
        "gin", "reference.gin", "GIN", "sums over neighbours and perceptrons (Xu et al. 2019)"
    ),
    ZooModel("gin_ln", "reference.gin", "GIN+LN", f"GIN, {_LN}"),
    ZooModel("gin_at", "defences.adversarial", "GIN+AT", f"GIN, {_AT}"),
    ZooModel(
        "appnp",
        "reference.appnp",
        "APPNP",
        "a perceptron, then personalised PageRank (Klicpera et al. 2019)",
    ),
    ZooModel("appnp_ln", "reference.appnp", "APPNP+LN", f"APPNP, {_LN}"),
    ZooModel("appnp_at", "defences.adversarial", "APPNP+AT", f"APPNP, {_AT}"),
    ZooModel("tagcn", "reference.tagcn", "TAGCN", "polynomials of the adjacency (Du et al. 2017)"),
    ZooModel("tagcn_ln", "reference.tagcn", "TAGCN+LN", f"TAGCN, {_LN}"),
    ZooModel("tagcn_at", "defences.adversarial", "TAGCN+AT", f"TAGCN, {_AT}"),
    ZooModel(
        "sage",
        "reference.sage",
        "SAGE",
        "GraphSAGE, pooling over neighbours (Hamilton et al. 2017)",
    ),
    ZooModel("sage_ln", "reference.sage", "SAGE+LN", f"GraphSAGE, {_LN}"),
    ZooModel("sage_at", "defences.adversarial", "SAGE+AT", f"GraphSAGE, {_AT}"),
    ZooModel(
        "sgcn",
        "reference.sgcn",
        "SGCN",
        "simplified graph convolutions of several hops (Wu et al. 2019)",
    ),
    ZooModel("sgcn_ln", "reference.sgcn", "SGCN+LN", f"SGCN, {_LN}"),
    ZooModel("sgcn_at", "defences.adversarial", "SGCN+AT", f"SGCN, {_AT}"),
    ZooModel(
        "mlp", "reference.mlp", "MLP", "a perceptron on the features, which ignores the graph"
    ),
    ZooModel(
        "rgcn",
        "defences.rgcn",
        "R-GCN",
        "RobustGCN: Gaussians that attend by their variance (Zhu et al. 2019)",
    ),
    ZooModel("rgcn_at", "defences.adversarial", "R-GCN+AT", f"RobustGCN, {_AT}"),
    ZooModel(
        "gcn_svd", "defences.svd", "GCN-SVD", "GCN on a low-rank adjacency (Entezari et al. 2020)"
    ),
    ZooModel(
        "gcn_guard",
        "defences.guarded",
        "GCNGuard",
        "GCN without edges of dissimilar nodes (Zhang & Zitnik 2020)",
    ),
    ZooModel(
        "gat_guard",
        "defences.guarded",
        "GATGuard",
        "GAT without edges of dissimilar nodes (Zhang & Zitnik 2020)",
    ),
    ZooModel(
        "elastic_gnn",
        "defences.elastic_gnn",
        "ElasticGNN",
        "a perceptron, then smoothing by lengths of differences (Liu et al. 2021)",
    ),
    ZooModel(
        "air_gnn",
        "defences.air_gnn",
        "AirGNN",
        "a perceptron, then PageRank with a residual of its own at each node (Liu et al. 2021)",
    ),
    ZooModel(
        "rung",
        "defences.rung",
        "RUNG",
        "a perceptron, then steps along edges of small differences (Hou et al. 2024)",
    ),
    ZooModel(
        "grand",
        "defences.grand",
        "GRAND",
        "a perceptron on random propagations that have to agree (Feng et al. 2020)",
    ),
    ZooModel(
        "gcn_jaccard",
        "defences.jaccard",
        "GCN-Jaccard",
        "GCN without edges of dissimilar features (Wu et al. 2019)",
    ),
    ZooModel(
        "median_gcn",
        "defences.median",
        "MedianGCN",
        "the median of the neighbours instead of their mean (Chen et al. 2021)",
    ),
    ZooModel(
        "soft_median_gdc",
        "defences.soft_median",
        "Soft Median GDC",
        "means near the median of diffused neighbours (Geisler et al. 2021)",
    ),
    ZooModel(
        "gprgnn",
        "defences.gprgnn",
        "GPR-GNN",
        "a perceptron, then a learned polynomial of the adjacency (Chien et al. 2021)",
    ),
    ZooModel(
        "gprgnn_at",
        "defences.gprgnn",
        "GPR-GNN+AT",
        "GPR-GNN, adversarial training with LR-BCD flips of edges (Gosch et al. 2023)",
    ),
    ZooModel(
        "pro_gnn",
        "defences.pro_gnn",
        "Pro-GNN",
        "GCN that learns a sparse adjacency of low rank in training (Jin et al. 2020)",
    ),
    ZooModel(
        "simp_gcn",
        "defences.simp_gcn",
        "SimP-GCN",
        "GCN that also propagates among nodes of similar features (Jin et al. 2021)",
    ),
)

_ROWS: Final = {entry.name: entry for entry in _ENTRIES}
ZOO: Final[Mapping[str, ZooModel]] = MappingProxyType(_ROWS)

# What a model of graphs has to be better than; on no leaderboard.
SIMPLE: Final = (
    ZooModel(
        "logistic_regression",
        "reference.logistic_regression",
        "logistic regression",
        "one linear layer on the features, which ignores the graph",
    ),
    ZooModel(
        "degree", "reference.degree", "degree", "one linear layer on the logarithm of the degree"
    ),
)

# The models of Guerranti et al. 2023, for which there is no leaderboard.
CONTRASTIVE: Final = (
    ZooModel(
        "gcn_kipf",
        "contrastive.gcn_kipf",
        "GCN",
        "supervised, two layers of 16 (Kipf & Welling 2017)",
    ),
    ZooModel(
        "dgi",
        "contrastive.dgi",
        "DGI",
        "encoder of nodes, Deep Graph Infomax (Veličković et al. 2019)",
    ),
    ZooModel(
        "graphcl",
        "contrastive.graphcl",
        "GraphCL",
        "encoder of nodes, augmented views (You et al. 2020)",
    ),
    ZooModel(
        "graphcl_infomax",
        "contrastive.graphcl_infomax",
        "GraphCL",
        "the same, with the loss of its authors' code",
    ),
    ZooModel(
        "gca",
        "contrastive.gca",
        "GCA",
        "encoder of nodes, adaptive views by degree (Zhu et al. 2021)",
    ),
    ZooModel("gca_eigenvector", "contrastive.gca", "GCA", "the same, by eigenvector centrality"),
    ZooModel("gca_pagerank", "contrastive.gca", "GCA", "the same, by PageRank"),
    ZooModel("graph_gcn", "reference.graph_gcn", "GCN", "of graphs, supervised, with mean pooling"),
    ZooModel(
        "graph_gin",
        "reference.graph_gin",
        "GIN",
        "of graphs, supervised, with sum pooling (Xu et al. 2019)",
    ),
    ZooModel(
        "infograph", "contrastive.infograph", "InfoGraph", "encoder of graphs (Sun et al. 2020)"
    ),
    ZooModel(
        "graph_graphcl",
        "contrastive.graph_graphcl",
        "GraphCL",
        "encoder of graphs (You et al. 2020)",
    ),
    ZooModel(
        "adgcl",
        "contrastive.adgcl",
        "AD-GCL",
        "encoder of graphs, learned augmentation (Suresh et al. 2021)",
    ),
)
EVERY: Final = (*ZOO.values(), *SIMPLE, *CONTRASTIVE)


def known(target: str) -> ZooModel | None:
    """Return the row of a target such as `grb_check.models:dgi`; None for other targets."""
    return next((model for model in EVERY if model.target == target.strip()), None)


def entry(text: str) -> ZooModel:
    """Return the reference model with this name, title or target, ignoring case.

    Raises:
        UsageError: there is none; the message lists the nearest name and all names.
    """
    requested = text.strip().lower()
    for model in ZOO.values():
        if requested in (model.name, model.title.lower(), model.target.lower()):
            return model
    raise unknown("reference model", requested.rpartition(":")[2], tuple(ZOO))
