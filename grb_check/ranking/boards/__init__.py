"""Leaderboards: models by attacks, published ones and measured ones."""
