"""What is told of a branch to people who read it as Markdown or in a browser."""
