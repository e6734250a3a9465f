"""One case against one model: black-box and white-box attacks, surrogates, diagnostics.

May import everything that attacks or trains; imports no gate, no report and no pytest.
"""
