"""Files of any content: written whole, npz files with a checksum, typed JSON, versions.

May import `errors`. May be imported by every later package.
"""
