"""Subscriptions: the changes of an object at each T, and the stored position of each reader."""
