"""Names of types of numbers."""


def dtype_name(dtype: object) -> str:
    """Return the name of a dtype of torch or numpy, such as `float32`."""
    return str(dtype).removeprefix("torch.")
