"""The catalog as it is stored, where a warehouse lies, and files of users."""
