"""The stored state of a warehouse: catalog, timeline, table versions at each T, schedules.

May import ``delta`` and what is below it.
"""
