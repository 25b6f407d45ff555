"""Kernels for processors, compiled by numba when they are first called.

Only `memdecay.runtime.precision.kernels.dispatch` imports from here, and only where numba is
installed.
"""
