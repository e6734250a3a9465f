"""Victims that attacks can differentiate through: weights of edges, links and injected nodes.

May import `errors`, `user_code`, `attacks` and `victims`, never `models`. May be imported by
`training`, `models` and `evaluation`.
"""
