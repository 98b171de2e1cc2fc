"""Run commands: parse, confine, start, watch and end them.

    command_lexer        ─► the tokens of a command line, read from its text
    command_tree         ─► the same tokens, read by the grammar of tree-sitter-bash
    command_parser       ─► the simple commands of a command line, for rules
    sandbox, landlock    ─► the paths and networks that a command may reach
    network_proxy        ─► the domains that a command in a sandbox may contact
    process              ─► a running command, its output and its exit
    command_supervisor   ─► the program that runs a command and ends its descendants

No module in this package depends on the tool that runs the command.
"""
