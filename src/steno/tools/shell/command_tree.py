"""Read a command line with the grammar of tree-sitter-bash, to check our own reading of it.

The grammar knows all of bash, but its tree is not exact: it accepts text that bash rejects, and
attaches some redirections to the wrong command. So only its tokens count, with the command that
each word belongs to. The tree is refused if a node is not in the tables of this module, is an error
or is missing. tree-sitter is imported when the first line is read.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple

from steno.tools.shell.command_lexer import Unreadable, UnsureReason

if TYPE_CHECKING:
    from tree_sitter import Language, Node


class TreeToken(NamedTuple):
    """A token with its place in bytes."""

    start: int
    end: int
    role: str
    """An operator, or one of "word", "target", "descriptor" and "comment"."""
    command: int
    """The place of the command that the word belongs to; -1 if the token is no word of a command."""


_COMMANDS: Final = frozenset({"command", "test_command", "declaration_command", "unset_command"})
_STRUCTURES: Final = _COMMANDS | {
    *("program", "list", "pipeline", "redirected_statement", "file_redirect", "command_name"),
    *("herestring_redirect", "negated_command", "subshell", "compound_statement"),
    *("variable_assignments", "unary_expression", "binary_expression"),
}
_REDIRECTIONS: Final = frozenset({"file_redirect", "herestring_redirect"})
_WORDS: Final = frozenset(
    {
        *("word", "number", "string", "raw_string", "concatenation", "simple_expansion"),
        *("expansion", "brace_expression", "variable_name", "variable_assignment"),
        "test_operator",
    }
)
_WORD_PARTS: Final = _WORDS | {
    *("special_variable_name", "string_content", '"', "$", "${", "}", "{", "..", "="),
}
_OPERATORS: Final = frozenset({"&&", "||", "|", "|&", ";", "&", "\n", "(", ")", "{", "}", "!"})
_REDIRECTION_OPERATORS: Final = frozenset(
    {"<", ">", ">>", "&>", "&>>", ">&", "<&", ">|", "<<<", "<>"}
)
_OTHER_ROLES: Final = {"comment": "comment", "file_descriptor": "descriptor"}


@cache
def find_language() -> Language | None:
    """Return the grammar, or None if it or tree-sitter is not installed."""
    try:
        tree_sitter = importlib.import_module("tree_sitter")
        grammar = importlib.import_module("tree_sitter_bash")
        language: Language = tree_sitter.Language(grammar.language())
    except (ImportError, ValueError):  # a ValueError: the two have incompatible versions
        return None
    return language


def read_tree(text: str) -> list[TreeToken]:
    """Return the tokens that the grammar finds. Raises Unreadable.

    The separators of commands are left out if they are line breaks: the tree does not contain them.
    """
    language = find_language()
    if language is None:
        raise Unreadable(UnsureReason.PARSER_MISSING)
    parser = importlib.import_module("tree_sitter").Parser(language)
    root: Node = parser.parse(text.encode()).root_node
    if root.has_error:
        raise Unreadable(UnsureReason.DISAGREEMENT)
    return list(_tokens(root))


def byte_offsets(text: str) -> list[int]:
    """Return the place in bytes of every character, and the length."""
    return [0, *accumulate(len(char.encode()) for char in text)]


def _tokens(root: Node) -> Iterator[TreeToken]:
    """Yield the tokens from left to right, without recursion."""
    pending: list[tuple[Node, str, int]] = [(root, "", -1)]
    while pending:
        node, parent, command = pending.pop()
        kind = node.type
        if node.is_missing or node.is_error:
            raise Unreadable(UnsureReason.DISAGREEMENT)
        if node.is_named and kind in _STRUCTURES:
            starts_command = kind in _COMMANDS or kind == "variable_assignments"
            command = node.start_byte if starts_command else command
            command = -1 if kind in _REDIRECTIONS else command
            pending.extend((child, kind, command) for child in reversed(node.children))
        elif node.is_named and kind in _WORDS:
            _check_word(node)
            if kind == "variable_assignment" and command < 0:
                command = node.start_byte
            role = "target" if parent in _REDIRECTIONS else "word"
            yield TreeToken(node.start_byte, node.end_byte, role, command)
        else:
            role = _role_of_leaf(node, parent)
            if role != "\n":
                is_word = role == "word"
                yield TreeToken(node.start_byte, node.end_byte, role, command if is_word else -1)


def _role_of_leaf(node: Node, parent: str) -> str:
    kind = node.type
    if node.is_named:
        if kind in _OTHER_ROLES:
            return _OTHER_ROLES[kind]
    elif parent in _REDIRECTIONS:
        if kind in _REDIRECTION_OPERATORS:
            return kind
    elif parent in {*_COMMANDS, "unary_expression", "binary_expression"}:
        return "word"  # a name with a rule of its own, such as `export`, or an operator of `[`
    elif kind in _OPERATORS:
        return kind
    raise Unreadable(UnsureReason.DISAGREEMENT)


def _check_word(word: Node) -> None:
    """Raise Unreadable if a part of the word is not in the table."""
    pending = [word]
    while pending:
        node = pending.pop()
        if node.type not in _WORD_PARTS or node.is_missing or node.is_error:
            raise Unreadable(UnsureReason.DISAGREEMENT)
        pending.extend(node.children)
