"""Attention over packed tokens that never unpacks them all at once."""
