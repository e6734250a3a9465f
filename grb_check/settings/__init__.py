"""Options and ini values, read into one frozen `Settings` with the origin of each value.

May import what names cases, datasets, limits and boards. Imports no torch.
"""
