"""Refreshing a view by what changed: which way to go, the changes, and the rows to write.

choice    which way, from sizes; pure
plans     a view's change plan, and whether Spark reads it as it reads the user's text
deltas    what changed in the tables between the view's last write and now
following runs the plan's texts and stages what comes out
"""
