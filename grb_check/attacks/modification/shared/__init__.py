"""Shared parts of the modification attacks on a single graph.

- `edge_set`: edges as sorted numbers, ranges of pairs, and what may be removed.
- Attacks by gradients: `flip_sources` (all pairs, random pairs, removals; flips as weights, of sets
  of graphs too), `edge_search` (settings, start and end, greedy steps, rounding).
- Attacks without gradients: `flips_at_targets`, `centrality`, `spectra`, `linear_surrogate`. By a
  model's answers: `answer_search`, one by one or by `flip_sweeps`.

May import what `attacks/__init__.py` lists below it.
"""
