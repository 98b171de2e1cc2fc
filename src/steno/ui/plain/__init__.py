"""The line-by-line interface for screen readers, pipes, and terminals without a full screen."""
