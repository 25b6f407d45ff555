"""The decaying KV cache, the tagger that feeds it and the session that uses both."""
