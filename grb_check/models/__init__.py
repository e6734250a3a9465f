"""Reference models."""

from __future__ import annotations

from grb_check.models.gcn import GCN, gcn

__all__ = ["GCN", "gcn"]
