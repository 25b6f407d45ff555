"""Benchmarks of the cache: what it costs in quality, time and memory."""
