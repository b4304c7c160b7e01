"""Results for other programs and people: experiment trackers, and packs for archives and artifact evaluations."""
