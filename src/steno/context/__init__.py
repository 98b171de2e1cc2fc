"""What a model gets to see of a log, and a report of everything that was changed on the way."""
