"""Labels for traces: by rules, by people, and how well two labellings agree."""
