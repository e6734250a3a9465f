"""Attacks on sets of graphs, each within a budget of its own, many at a time."""
