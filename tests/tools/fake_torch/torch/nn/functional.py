"""See torch: each function returns its first argument."""


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return lambda x, *_, **__: x
