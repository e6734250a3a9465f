"""One case against one model: black-box and white-box attacks, surrogates, diagnostics.

May import `errors`, `user_code`, `files`, `datasets`, `attacks`, `cases`, `store`, `victims`,
`gradients`, `training` and `models`. May be imported by every later package. Knows neither the gate
nor pytest.
"""
