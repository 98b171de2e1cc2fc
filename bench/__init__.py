"""Benchmarks: speed and size of steno compared with other libraries. Run them with `make bench`."""
