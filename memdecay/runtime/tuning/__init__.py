"""Fit what the regions weigh to the divergence from a full cache."""
