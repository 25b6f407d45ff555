"""What the figures mean: whether confidence can be trusted, and whether anything has drifted."""
