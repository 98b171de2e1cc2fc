"""What a model can ask for: files, commands, and functions of your own."""
