"""WHY and BLAME: which rows a row was made from."""
