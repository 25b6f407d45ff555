"""Triton kernels that attend to packed tokens on a GPU; importing them needs Triton."""
