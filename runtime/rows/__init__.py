"""Row sets in the driver or in Spark: bounded collection, and differences of multisets."""
