"""Commands: how they are run, watched, confined and ended.

    environment ─► what a command may know
    sandbox     ─► what it may reach: bubblewrap, landlock, or nothing better
    process     ─► a command that runs; supervise is the program that runs it
    capture     ─► what it has said

None of it knows what a model asked for.
"""
