"""Noise, the ε that it provably gives, the ledger of what was spent, and secure sums."""
