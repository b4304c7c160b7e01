"""The nodes and the network between them: churn, messages, delays, partitions, adversaries."""
