"""The full-screen interface, a Textual application that uses `steno.app.session`."""
