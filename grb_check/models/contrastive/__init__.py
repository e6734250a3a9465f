"""Graph-contrastive encoders for nodes and for sets of graphs."""
