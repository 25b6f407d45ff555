"""Sessions between their turns: finding them again, and keeping them where there is room."""
