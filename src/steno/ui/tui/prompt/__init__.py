"""The prompt of the full screen: several lines, history, completion, pasted texts and images."""
