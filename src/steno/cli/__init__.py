"""The `steno` command: one module for each command, loaded when it is used."""
