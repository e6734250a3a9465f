"""Shared parts of the attacks on sets of graphs, of which each has its own budget.

Injection takes the same steps as on a single graph: `links.sites` says where nodes may be
injected, and `placed_nodes` how their features are found: `links.feature_search` ascends for one
group of nodes or for many, which are graphs in `injected_graphs`.

The attacks on edges are those of `modification/` with the tag `graphs`; they call `graph_search` if
their threat has a `batch`. All graphs are searched at once:

- `graph_list`: graphs side by side, with flips made, in forward passes of bounded size.
- `flip_sources`: candidate flips from a model's gradients; `pair_ranking` ranks all pairs of every
  graph from one gradient.
- `flipped_graphs`: flips made so far, and what the model predicts under them.
- `try_flips`, `greedy_flips`, `relaxed_flips`, `rounded_flips`: the searches.
- `keyed_random`: random numbers that do not depend on which graphs share a pass; `rounding_step`:
  gains that do not depend on rounding.

A search of a single graph (`edges/`) has the same steps. What flips as weights have in common, rows
of which are graphs, is `edges.flip_weights`: gains, the step along them, projection. The rest is
separate, because one forward pass shows how each of many small graphs changes, so that whole flips
are tried, while in one large graph all flips count together and only gradients tell them apart.

May import what `attacks/__init__.py` lists below it.
"""
