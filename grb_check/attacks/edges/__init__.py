"""Shared parts of the modification attacks on a single graph.

- Attacks by gradients: `edge_set` (edges as sorted numbers), `flip_sources` (all pairs, random
  pairs, removals), `best_flips` (the best of all pairs), `greedy` (steps, exchanges),
  `flip_weights` (flips as weights: gains, steps, projection; of sets of graphs too), `relaxation`
  (rounding), `edge_search` (settings, start and end).
- Attacks without gradients: `flips_at_targets`, `removable`, `pair_ranges`, `lowest_pairs`,
  `ranked_flips`, `centrality`, `spectra`. By a model's answers: `answer_search`, `forward_trials`.
- Attacks on features: `feature_nodes`.

May import what `attacks/__init__.py` lists below it.
"""
