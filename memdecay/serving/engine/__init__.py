"""The engine behind `memdecay serve`: sessions that decode together and are kept between turns."""
