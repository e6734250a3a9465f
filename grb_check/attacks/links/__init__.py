"""Shared parts of the injection attacks: where links go, and how features are found.

Structure and features are separate parts that combine: `links` (random, grouped, even, ring) and
`weak_targets` (which targets, towards which class); `steps` (sign, l2, Adam), `harmony` and
`feature_search` (the ascent and its stopping rule). May import what `attacks/__init__.py` lists
below it.
"""
