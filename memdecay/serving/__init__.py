"""Serving of many sessions: the engine that runs them and the HTTP interface in front of it."""
