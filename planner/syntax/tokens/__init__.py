"""SQL text below statements: tokens, cutting, replacing, and how operators bind."""
