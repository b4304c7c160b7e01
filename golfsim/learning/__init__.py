"""Update, fit, combine and tune models."""
