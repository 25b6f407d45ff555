"""What the measurements say together: intervals, memory at equal quality, tables and plots."""
