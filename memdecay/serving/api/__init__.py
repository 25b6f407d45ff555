"""The HTTP interface of `memdecay serve`: OpenAI's routes, sessions, and what watches them."""
