"""The memdecay command."""
