"""How a session of Spark begins, and its settings."""
