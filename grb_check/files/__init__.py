"""Files of any content: written whole, npz files with a checksum, typed JSON, versions.

May import `errors` only. Every package may import it.
"""
