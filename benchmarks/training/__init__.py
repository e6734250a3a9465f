"""Training of the reference models: its cost and its accuracy."""
