"""Readers that formats share, which load numpy and torch: arrays, edges, tables, PyG's graphs.

May import `datasets` modules that know no format, and `files`.
"""
