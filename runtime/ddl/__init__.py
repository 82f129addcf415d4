"""Statements about objects: making, changing, dropping and explaining them."""
