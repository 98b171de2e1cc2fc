"""The line-by-line interface for screen readers, pipes and simple terminals."""
