"""Speed and size of steno, beside other libraries. See README.md; run with `make bench`."""
