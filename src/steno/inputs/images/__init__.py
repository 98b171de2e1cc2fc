"""Images for a model: read, checked, shrunk, or recognised as text."""
