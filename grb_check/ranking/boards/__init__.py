"""Leaderboards: accuracies of models under attacks, published or measured."""
