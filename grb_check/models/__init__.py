"""Reference models and defences; `grb_check.models.zoo` lists the factories."""

from __future__ import annotations

from grb_check.models.contrastive.adgcl import adgcl
from grb_check.models.contrastive.dgi import dgi
from grb_check.models.contrastive.gca import gca, gca_eigenvector, gca_pagerank
from grb_check.models.contrastive.gcn_kipf import gcn_kipf
from grb_check.models.contrastive.graph_graphcl import graph_graphcl
from grb_check.models.contrastive.graphcl import graphcl
from grb_check.models.contrastive.graphcl_infomax import graphcl_infomax
from grb_check.models.contrastive.infograph import infograph
from grb_check.models.defences.adversarial import (
    appnp_at,
    gat_at,
    gcn_at,
    gin_at,
    rgcn_at,
    sage_at,
    sgcn_at,
    tagcn_at,
)
from grb_check.models.defences.guarded import GATGuard, GCNGuard, gat_guard, gcn_guard
from grb_check.models.defences.rgcn import RGCN, rgcn
from grb_check.models.defences.svd import GCNSVD, gcn_svd
from grb_check.models.reference.appnp import APPNP, appnp, appnp_ln
from grb_check.models.reference.gat import GAT, gat, gat_ln
from grb_check.models.reference.gcn import GCN, gcn, gcn_ln
from grb_check.models.reference.gin import GIN, gin, gin_ln
from grb_check.models.reference.graph_gcn import GraphGCN, graph_gcn
from grb_check.models.reference.graph_gin import GINStack, GraphGIN, graph_gin
from grb_check.models.reference.sage import GraphSAGE, sage, sage_ln
from grb_check.models.reference.sgcn import SGCN, sgcn, sgcn_ln
from grb_check.models.reference.tagcn import TAGCN, tagcn, tagcn_ln

__all__ = [
    "APPNP",
    "GAT",
    "GCN",
    "GCNSVD",
    "GIN",
    "RGCN",
    "SGCN",
    "TAGCN",
    "GATGuard",
    "GCNGuard",
    "GINStack",
    "GraphGCN",
    "GraphGIN",
    "GraphSAGE",
    "adgcl",
    "appnp",
    "appnp_at",
    "appnp_ln",
    "dgi",
    "gat",
    "gat_at",
    "gat_guard",
    "gat_ln",
    "gca",
    "gca_eigenvector",
    "gca_pagerank",
    "gcn",
    "gcn_at",
    "gcn_guard",
    "gcn_kipf",
    "gcn_ln",
    "gcn_svd",
    "gin",
    "gin_at",
    "gin_ln",
    "graph_gcn",
    "graph_gin",
    "graph_graphcl",
    "graphcl",
    "graphcl_infomax",
    "infograph",
    "rgcn",
    "rgcn_at",
    "sage",
    "sage_at",
    "sage_ln",
    "sgcn",
    "sgcn_at",
    "sgcn_ln",
    "tagcn",
    "tagcn_at",
    "tagcn_ln",
]
