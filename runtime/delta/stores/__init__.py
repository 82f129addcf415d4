"""Stores of files: local disks, object stores, and their locks."""
