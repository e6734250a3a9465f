"""Attacks that change edges or features of existing nodes: one file each."""
