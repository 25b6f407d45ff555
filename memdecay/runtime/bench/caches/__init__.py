"""The caches that are compared: policies of the product, variants of them, per-head baselines."""
