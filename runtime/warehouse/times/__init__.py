"""The timeline: which version each table had at which T, and transactions over tables."""
