"""Where files are: local disks, object stores, and their locks."""
