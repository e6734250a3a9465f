"""Victims that attacks can differentiate through: weights of edges, links and injected nodes.

May import `attacks.protocol` and `victims`; never `models`.
"""
