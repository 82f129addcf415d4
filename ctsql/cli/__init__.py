"""The command line: commands, options and exit codes."""
