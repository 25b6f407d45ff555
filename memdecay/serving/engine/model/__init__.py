"""The model's forwards for many sessions at once, and the memory that each session has of them."""
