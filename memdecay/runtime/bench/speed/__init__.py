"""How long decoding and prefill take and what the cache holds, beside transformers' own cache."""
