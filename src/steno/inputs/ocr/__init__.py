"""The text in an image, recognised here and offline. `steno.inputs` exports the public names."""
