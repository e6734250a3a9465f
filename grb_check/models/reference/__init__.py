"""GRB's reference models, with its hyper-parameters, and those for sets of graphs."""
