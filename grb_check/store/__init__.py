"""The store: perturbations and other results worth keeping between runs, by content.

- `place`: where a store is, as plain data (`StorePlace`), and `open_store`.
- `pack`: all black-box perturbations of a run in one file (`Pack`). `packs`: opens it in any
  process.
- `store`: files under keys, each with a checksum (`Store`).
- `remote`: the same files behind a URL, which may fail without failing a run.
- `warning`: what is said instead.

May import `errors`, `files`, `datasets`, `attacks` and `cases`. May be imported by every later
package. Importing it loads no torch.
"""
