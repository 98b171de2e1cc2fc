"""Run commands: parse, confine, start, watch and end them.

    command_lexer     ─► the tokens of a command line, read from its text
    command_tree      ─► the same tokens, read by the grammar of tree-sitter-bash
    command_parser    ─► the simple commands of a command line
    command_table     ─► the commands that only read, and common project work
    command_subjects  ─► the subjects of a command line, for rules
    sandbox           ─► the files and the network that a command may reach
    mount_plan        ─► the view that a command has of the file system
    network_proxy     ─► the domains that a command in a sandbox may contact
    process           ─► a running command, its output and its exit
    launch            ─► starts the supervisor and reads its report
    supervisor        ─► the program that confines, runs and ends a command
    blocked_access    ─► what a sandbox blocked, from the output of a failed command

No module in this package depends on the tool that runs the command.
"""
