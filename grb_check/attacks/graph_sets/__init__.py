"""Shared parts of the attacks on sets of graphs, of which each has its own budget.

These are the attacks with the tag `graphs`; `attacks.perturb` calls them if the threat has a
`batch`. Injection takes the same steps as on a single graph: `links.links` says where nodes may be
injected, `injected_graphs` how their features are found: `links.feature_search` ascends for one
group of nodes or for many, which are graphs.

Of the attacks on edges all graphs are searched at once:

- `graph_list`: graphs side by side, with flips made, in forward passes of bounded size; random
  numbers and gains that do not depend on which graphs share a pass.
- `candidate_flips`: candidate flips from a model's gradients; all pairs of every graph are ranked
  from one gradient.
- `greedy_flips`, `relaxed_flips`: the searches; `attacks`: which attack takes which.

A search of a single graph (`modification/shared`) has the same steps. What flips as weights have in
common, rows of which are graphs, is in `flip_weights`: gains, the step along them, projection. The
rest is separate, because one forward pass shows how each of many small graphs changes, so that
whole flips are tried, while in one large graph all flips count together and only gradients tell
them apart.

May import what `attacks/__init__.py` lists below it.
"""
