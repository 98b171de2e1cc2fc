"""Entries, events and reports as people and programs read them."""
