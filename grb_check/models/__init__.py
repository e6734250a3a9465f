"""Reference models and defences; `grb_check.zoo` lists the factories."""

from __future__ import annotations

from grb_check.models.adgcl import adgcl
from grb_check.models.adversarial import (
    appnp_at,
    gat_at,
    gcn_at,
    gin_at,
    rgcn_at,
    sage_at,
    sgcn_at,
    tagcn_at,
)
from grb_check.models.appnp import APPNP, appnp, appnp_ln
from grb_check.models.dgi import dgi
from grb_check.models.gat import GAT, gat, gat_ln
from grb_check.models.gca import gca, gca_eigenvector, gca_pagerank
from grb_check.models.gcn import GCN, gcn, gcn_ln
from grb_check.models.gcn_kipf import gcn_kipf
from grb_check.models.gin import GIN, gin, gin_ln
from grb_check.models.graph_gcn import GraphGCN, graph_gcn
from grb_check.models.graph_gin import GINStack, GraphGIN, graph_gin
from grb_check.models.graph_graphcl import graph_graphcl
from grb_check.models.graphcl import graphcl
from grb_check.models.graphcl_infomax import graphcl_infomax
from grb_check.models.guarded import GATGuard, GCNGuard, gat_guard, gcn_guard
from grb_check.models.infograph import infograph
from grb_check.models.rgcn import RGCN, rgcn
from grb_check.models.sage import GraphSAGE, sage, sage_ln
from grb_check.models.sgcn import SGCN, sgcn, sgcn_ln
from grb_check.models.svd import GCNSVD, gcn_svd
from grb_check.models.tagcn import TAGCN, tagcn, tagcn_ln

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
