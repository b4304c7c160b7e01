"""Data sets: cards, files, scaling, generated sets, and the placement of records on nodes."""
