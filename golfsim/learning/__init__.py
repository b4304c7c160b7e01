"""How models are updated, fitted, combined and tuned."""
