"""Training loops for nodes and graphs, linear probe, adversarial training, building a victim.

May import `errors`, `user_code`, `datasets`, `attacks`, `victims` and `gradients`. May be imported
by `models`, `evaluation`, `conformance` and `ranking`.
"""
