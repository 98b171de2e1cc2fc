"""Let a model work: ask it, check and run what it calls for, record everything, and go on."""
