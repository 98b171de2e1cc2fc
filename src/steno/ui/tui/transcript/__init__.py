"""The conversation on the screen: blocks, drawn and scrolled."""
