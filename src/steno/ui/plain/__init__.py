"""The terminal line by line: for screen readers, pipes, and wherever there is no full screen."""
