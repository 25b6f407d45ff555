"""How far a forgetting cache strays from a full one, on recorded agent traces."""
