"""Slash commands: one module for each group, and the table that lists them."""
