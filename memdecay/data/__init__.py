"""Traces in, tokens with region labels and hidden states out."""
