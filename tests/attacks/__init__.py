"""Attacks on steno as data, and the programs that run them: `make attacks`, `python -m tests.attacks`.

    data/*.toml         the attacks, one file per category, and the known limits with their reasons
    catalog.py          the types of the data
    configurations.py   users and sandboxes, and the Python that each of them runs
    worker.py           runs attacks, one after the other, as one user in one sandbox
    scenarios.py        the part that uses steno: tool calls, approvals, programs
    observations.py     finds out whether an attack succeeded
    report.py           writes the page docs/security/attacks.md

An attack uses steno only through its outermost interfaces: the tools in an agent, the public names
of the library, and the command line.
"""
