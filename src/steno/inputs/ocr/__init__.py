"""The text in an image, recognised here and offline. `steno.inputs` gives out what is public."""
