"""Real recordings, where there are some: decoded, compared, sent back. `make corpus` runs it."""
