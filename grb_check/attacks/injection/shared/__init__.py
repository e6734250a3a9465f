"""Shared parts of the injection attacks: where links go, and how features are found.

Structure and features are separate parts that combine: `links` (random, grouped, even, ring; to
which targets, towards which class; next to targets or in each graph of a set) and `domains` (a
range, or one-hot rows; steps by sign, l2, Adam), `feature_search` (the ascent, its stopping rule,
and homophily). May import what `attacks/__init__.py` lists below it.
"""
