"""Contrastive encoders, beside the tables of Guerranti et al. 2023."""
