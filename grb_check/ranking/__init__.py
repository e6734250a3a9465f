"""Summaries and ranks: of the models of a run, and against leaderboards.

May import `cases` and `gate`. Only making a board imports torch.
"""
