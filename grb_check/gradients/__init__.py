"""Victims that attacks can differentiate through: weights of edges, links and injected nodes.

For attacks without gradients, `flip_deltas` and `recorded_layers` answer many sets of flips.

May import `errors`, `user_code`, `attacks` and `victims`, never `models`. May be imported by
`training`, `models`, `evaluation` and `conformance`.
"""
