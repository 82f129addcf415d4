"""What statements do with an object that is there: find it, refresh it, run it again."""
