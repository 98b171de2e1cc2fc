"""Where a person types: several lines, history, completion, pasted texts and images."""
