"""What a warehouse knows: its catalog, its timeline, every relation at every T, schedules.

May import ``delta`` and what is below it.
"""
