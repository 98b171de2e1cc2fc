"""What is written to a log: entries with their payloads, and the stored form of each."""
