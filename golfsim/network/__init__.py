"""The nodes and what lies between them: churn, messages, delays, partitions, adversaries."""
