"""Keys and values at fewer bits: how they are packed, and what comes back."""
