"""Is it a sound model of graphs? Properties checked on small graphs that hypothesis draws.

`plugin` makes tests of them for pytest, by the public hooks of grb_check. Nothing else of the
package imports this one: without it, and `strategies`, everything else works.
"""
