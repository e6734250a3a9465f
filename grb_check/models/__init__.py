"""Reference models and defences; `grb_check.zoo` lists the factories."""

from __future__ import annotations

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
from grb_check.models.gat import GAT, gat, gat_ln
from grb_check.models.gcn import GCN, gcn, gcn_ln
from grb_check.models.gin import GIN, gin, gin_ln
from grb_check.models.guarded import GATGuard, GCNGuard, gat_guard, gcn_guard
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
    "GraphSAGE",
    "appnp",
    "appnp_at",
    "appnp_ln",
    "gat",
    "gat_at",
    "gat_guard",
    "gat_ln",
    "gcn",
    "gcn_at",
    "gcn_guard",
    "gcn_ln",
    "gcn_svd",
    "gin",
    "gin_at",
    "gin_ln",
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
