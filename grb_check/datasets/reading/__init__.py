"""Readers behind the formats, which load numpy and torch: arrays, edges, tables, PyG's graphs.

May import `datasets` modules that know no format, `files` and `errors`.
"""
