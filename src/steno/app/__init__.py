"""The desk behind a terminal (`steno.app.session`), with everything put together."""
