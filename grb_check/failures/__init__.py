"""A failed case: its evidence, replay, shrinking, the smallest counter-example.

May import `evaluation` and `gate`.
"""
