"""The modification attacks, beside PyG's PRBCD and GRBCD."""
