"""What is served over HTTP beside a running warehouse: metrics, and the reader of its logs."""
