"""Summaries and ranks of the models of a run, among each other and on leaderboards.

May import every earlier package but `gradients`. May be imported by `settings`, `reports`,
`execution`, `session` and `cli`. Only making a board loads torch.
"""
