"""The interface line by line: for screen readers, pipes, and terminals without a full screen."""
