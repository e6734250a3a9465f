"""Attacks that inject nodes and leave the existing ones as they are."""
