"""What later attention says of labelled traces."""
