"""How bytes travel: over HTTP (`steno.transport.http`), or from a recording (`.replay`)."""
