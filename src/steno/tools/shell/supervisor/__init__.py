"""A small program between steno and a command, which confines, limits, watches and ends the command.

    main            ─► watches the command, and ends it with all its processes
    command         ─► turns a forked process into the confined command
    namespaces      ─► a view of the file system of its own
    landlock        ─► rights to files, by the kernel's security module
    seccomp         ─► a filter for system calls
    listener        ─► a socket inside the network of the sandbox, handed to steno
    placeholders    ─► empty folders in place of protected paths that do not exist
    processes       ─► the processes of the command and their memory
    cgroup          ─► limits for all processes together, where the kernel allows them
    orders          ─► the orders of steno
    kernel          ─► system calls for which Python has no function
    specification   ─► the types of what steno and the program exchange

The program starts once for each command, so it imports nothing from steno and little from the
standard library: modules such as `typing`, `re`, `enum` and `pathlib` would double its start time.
Its modules import each other by relative names, because the program starts without the package
`steno`: see `launch`.
"""
