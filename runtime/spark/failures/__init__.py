"""What exceptions of Spark and of stores mean in ctsql's words."""
