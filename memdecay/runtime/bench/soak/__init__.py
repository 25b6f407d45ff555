"""A session of very many turns: nothing may grow, drift apart, or end otherwise the second time."""
