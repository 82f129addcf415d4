"""Data files that the driver reads and writes itself."""
