"""Attacks that inject nodes and do not modify existing ones: one file each."""
