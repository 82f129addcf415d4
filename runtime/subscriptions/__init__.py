"""Following the changes of an object: what changed at each T, and how far a reader has come."""
