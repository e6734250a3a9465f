"""Defences of the literature as factories, one file each."""
