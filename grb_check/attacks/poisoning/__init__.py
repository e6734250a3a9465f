"""Attacks on what a model is trained on: one file each, and the model that they train."""
