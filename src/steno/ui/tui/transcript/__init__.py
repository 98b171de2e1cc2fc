"""The transcript on the screen: items, drawn and scrolled."""
