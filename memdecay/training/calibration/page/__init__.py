"""The report for people: one HTML page that needs nothing but itself."""
