"""Names, things and invented facts that the runs are about."""
