"""Real recordings, if you have some: decoded, compared, sent back. Run with `make corpus`."""
