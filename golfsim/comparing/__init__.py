"""Which strategy wins: statistics of paired runs, in numbers and in words."""
