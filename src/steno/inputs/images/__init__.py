"""Load, check and shrink images for a model, or recognise the text in them."""
