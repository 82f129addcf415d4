"""Reads a query into the nodes of a change plan, keeping the text of its expressions."""
