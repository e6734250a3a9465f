"""Shared parts of the attacks on edges for sets of graphs, each with its own budget.

The attacks are those of `modification/` with the tag `graphs`; they call `graph_search` if their
threat has a `batch`. All graphs are searched at once:

- `graph_list`: graphs side by side, with flips made, in forward passes of bounded size.
- `flip_sources`: candidate flips from a model's gradients; `pair_ranking` ranks all pairs of every
  graph from one gradient.
- `flipped_graphs`: flips made so far, and what the model predicts under them.
- `try_flips`, `greedy_flips`, `relaxed_flips`, `rounded_flips`: the searches.
- `keyed_random`: random numbers that do not depend on which graphs share a pass; `rounding_step`:
  gains that do not depend on rounding.

A search of a single graph (`edges/`) has the same steps but shares none of these: it counts
targets, not graphs, and its draws come from one generator in sequence. May import what
`attacks/__init__.py` lists below it.
"""
