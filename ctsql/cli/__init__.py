"""The program ctsql: its commands, their options and exit codes."""
