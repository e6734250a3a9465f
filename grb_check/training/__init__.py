"""Training loops for nodes and graphs, linear probe, adversarial training, building a victim.

May import `victims`, `gradients` and the attacks.
"""
