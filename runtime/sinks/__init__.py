"""The two sinks: continual tasks and materialized views; each decides, does, and drives apart."""
