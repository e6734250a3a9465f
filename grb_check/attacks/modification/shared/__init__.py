"""Shared parts of the modification attacks on a single graph.

- `edge_set`: edges as sorted numbers; `pair_ranges`: ranges of pairs; `removable`: flips within the
  budgets of nodes.
- Attacks by gradients: `flip_sources` (all pairs, random pairs, removals), `best_flips` (largest
  gains), `flip_weights` and `relaxation` (flips as weights), `greedy`, `edge_search` (settings).
- Attacks without gradients: `flips_at_targets`, `best_at_targets`, `centrality`, `spectra`,
  `linear_surrogate`. By a model's answers: `answer_search`, one by one or by `flip_sweeps`.

May import what `attacks/__init__.py` lists below it.
"""
