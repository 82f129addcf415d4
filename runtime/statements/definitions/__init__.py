"""CREATE, ALTER, DROP, replacements: every way a definition comes, changes and goes."""
