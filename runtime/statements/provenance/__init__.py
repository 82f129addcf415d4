"""WHY and BLAME: the rows from which a row was computed, and the commits that wrote them."""
