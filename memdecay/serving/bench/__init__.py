"""The benchmark of servers: agents that hold long conversations at the same time."""
