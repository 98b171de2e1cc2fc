"""The full screen: a Textual application on `steno.app.session`."""
