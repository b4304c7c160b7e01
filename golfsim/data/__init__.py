"""Data sets: cards, files, scaling, generated sets, and which node holds which records."""
