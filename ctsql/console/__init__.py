"""What the command line, the shell and the tests share: running a script and reporting on it."""
