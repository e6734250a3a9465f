"""Shared parts of the injection attacks: where links go, and how features are found.

Structure and features are separate parts that combine: `links` (random, grouped, even, ring) and
`weak_targets` (which targets, towards which class), next to targets or in each graph of a set
(`sites`); `domains` (a range, or one-hot rows), `steps` (sign, l2, Adam), `harmony`,
`feature_search` (the ascent and its stopping rule) and `best_columns` (of one-hot rows). May import
what `attacks/__init__.py` lists below it.
"""
