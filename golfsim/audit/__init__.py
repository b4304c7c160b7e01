"""Privacy audit: empirical lower bounds on ε, for an observer who knows all data except one record (or node)."""
