"""One module for each kind of run."""
