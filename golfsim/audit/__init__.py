"""What an observer who knows all but one record (or node) can tell at least, found out by trying."""
