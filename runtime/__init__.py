"""Timeline, write handle, sinks and engine: everything that touches what is durable."""
