"""Noise mechanisms with their proven ε, the ledger of spent privacy budgets, and secure sums."""
