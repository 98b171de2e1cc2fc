"""What a person, a model and tools exchange: messages, blocks, calls, results and events."""
