"""Training, evaluation and export of the region classifier."""
