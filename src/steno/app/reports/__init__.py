"""Reports that the command line and slash commands share."""
