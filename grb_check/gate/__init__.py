"""The rules that turn outcomes into pass or fail: limits, baselines, limits on ranks.

May import `cases` and `files`. Imports no torch.
"""
