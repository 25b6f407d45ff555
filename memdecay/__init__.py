"""A KV cache that forgets like a memory: tokens fade by region, age and use."""

__version__ = "0.1.0"

__all__ = ["__version__"]
