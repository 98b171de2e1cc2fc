"""The desk behind a terminal (`steno.tui.desk`), with everything put together."""
