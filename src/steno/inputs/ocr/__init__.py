"""Recognition of text in images, on this machine. `steno.inputs` exports the public names."""
