"""One module per format; each defines ``FORMAT``, which is all that the registry looks for."""
