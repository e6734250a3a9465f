"""The store: perturbations and other results worth keeping between runs, by content.

- `store`: files under keys, each with a checksum (`Store`); where they are, as plain data
  (`StorePlace`), and `open_store`.
- `perturbation_bytes`: a perturbation as a file with a checksum.
- `pack`: all black-box perturbations of a run in one file (`Pack`), and how a process opens it.

May import `errors`, `files`, `datasets`, `attacks` and `cases`. May be imported by every later
package. Importing it loads no torch.
"""
