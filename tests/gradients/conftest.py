"""Shared by the tests of gradients."""

from torch_geometric.nn import SAGEConv

# PyG generates the `propagate` of a class for its first layer: without the branch for matrices if
# that one aggregates by "std", as some layers of these tests do.
SAGEConv(1, 1)
