"""The `steno` command line; each command has a module, which is loaded on use."""
