"""A program that writes to a store and prints each durable step, for tests that kill the program.

    python -m steno.testing.stores.writer ADDRESS SESSION

The program prints `ready`, waits for a line on stdin, and then prints one line for each durable
step (`session`, `branch NAME` or `entry BRANCH ID DIGEST`) and for each refused write (`refused
ERROR`). With `--read-only`, it prints a line for each stored entry, for each search hit (`found
SESSION`), and for each change that is refused or wrongly accepted (`changed OPERATION`). It imports
few modules, because it is started hundreds of times.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from random import Random

from steno.errors import Conflict, LogError, Missing
from steno.ids import new_id
from steno.log.conversation import Conversation
from steno.messages.call import ToolCall
from steno.messages.content import Image, ImageData, Text
from steno.messages.message import ChatMessage
from steno.records.entry import Entry
from steno.records.stored_record import MAIN_BRANCH
from steno.store import Store


def main(arguments: Sequence[str] | None = None) -> int:
    """Write to a session in the mode that the options select; return 0."""
    parser = argparse.ArgumentParser(prog="python -m steno.testing.stores.writer")
    parser.add_argument("address")
    parser.add_argument("session")
    parser.add_argument("--opener", default="steno.store:open_store", metavar="MODULE:FUNCTION")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--entries", type=int, default=-1, help="the number of entries to write (default: no limit)"
    )
    parser.add_argument(
        "--branch", help="append messages to this branch, retrying after conflicts with others"
    )
    parser.add_argument(
        "--largest-file",
        type=int,
        help="limit the size of files to this number of bytes, to simulate a full disk",
    )
    parser.add_argument(
        "--read-only", action="store_true", help="read the session and try changes that must fail"
    )
    options = parser.parse_args(arguments)
    module, _, function = options.opener.partition(":")
    opener = getattr(import_module(module), function)
    if options.read_only:
        _drop_privileges()
    store: Store = opener(options.address)
    with store:
        if options.read_only:
            _read_and_try_changes(store, options.session)
        elif options.branch is not None:
            _write_concurrently(store.open(options.session), options.branch, options.entries)
        elif options.largest_file is not None:
            _write_until_refused(store.open(options.session), options.largest_file)
        else:
            # Writers with the same seed write the same steps.
            random = Random(options.seed)  # noqa: S311 - not for secrets
            _write_random_steps(store, options.session, random, options.entries)
    return 0


def _wait_for_start() -> None:
    _report("ready")
    sys.stdin.readline()


def _report(*fields: str) -> None:
    sys.stdout.write(" ".join(fields) + "\n")
    sys.stdout.flush()


def _report_entry(conversation: Conversation, branch: str, entry: Entry) -> None:
    _report("entry", branch, entry.id, conversation.digest(entry.id))


# -- concurrent writers ------------------------------------------------------------------------


def _write_concurrently(conversation: Conversation, branch: str, entries: int) -> None:
    name = new_id()
    _wait_for_start()
    for number in range(entries):
        message = ChatMessage.user(f"{name} {number}")
        while True:
            try:
                entry = conversation.append(message, branch=branch)
            except Conflict:
                conversation.refresh()
                continue
            _report_entry(conversation, branch, entry)
            break


# -- a full disk -------------------------------------------------------------------------------


def _write_until_refused(conversation: Conversation, largest_file: int) -> None:
    import resource  # noqa: PLC0415 - missing on Windows

    assert conversation.branch == MAIN_BRANCH
    _wait_for_start()
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, resource.RLIM_INFINITY))
    message = ChatMessage.user("words " * (largest_file // 24))
    for _ in range(12):
        try:
            entry = conversation.append(message)
        except LogError as exc:
            _report("refused", type(exc).__name__)
        else:
            _report_entry(conversation, MAIN_BRANCH, entry)


# -- a read-only store -------------------------------------------------------------------------


def _drop_privileges() -> None:
    """Drop the capabilities of the superuser, so that file permissions apply to this process."""
    if os.geteuid() == 0:
        from ctypes import CDLL, c_uint32  # noqa: PLC0415 - rarely needed

        version, own_process, no_capabilities = 0x20080522, 0, (c_uint32 * 6)()
        if CDLL(None).capset((c_uint32 * 2)(version, own_process), no_capabilities) != 0:
            raise PermissionError("capset: this process cannot drop its capabilities")


def _read_and_try_changes(store: Store, session: str) -> None:
    conversation = store.open(session)
    _wait_for_start()
    for entry in conversation.entries():
        _report_entry(conversation, MAIN_BRANCH, entry)
    for hit in store.search("broken"):
        _report("found", hit.session)
    acts: dict[str, Callable[[], object]] = {
        "append": lambda: conversation.append(ChatMessage.user("no")),
        "fork": lambda: conversation.fork("no"),
        "rename": lambda: store.rename(session, "no"),
        "remove": lambda: store.remove(session),
    }
    for name, act in acts.items():
        try:
            act()
        except LogError as exc:
            _report("refused", type(exc).__name__)
        else:
            _report("changed", name)


# -- random steps ------------------------------------------------------------------------------


def _write_random_steps(store: Store, session: str, random: Random, entries: int) -> None:
    _wait_for_start()
    try:
        conversation = store.open(session)
    except Missing:
        conversation = store.new(id=session)
    _report("session")
    while entries != 0:
        _write_random_step(conversation, random)
        entries -= 1


def _write_random_step(conversation: Conversation, random: Random) -> None:
    lot = random.random()
    if lot < 0.06:
        name = f"branch-{len(conversation.branches)}-{random.randrange(10**9)}"
        with suppress(Conflict):
            conversation.fork(name)
            _report("branch", name)
        return
    if lot < 0.10:
        entry = conversation.switch(random.choice(list(conversation.branches)))
    elif lot < 0.14 and len(conversation):
        entry = conversation.rewind(random.choice(conversation.entries()).id)
    else:
        entry = conversation.append(_next_message(conversation, random, lot))
    _report_entry(conversation, conversation.branch, entry)


def _next_message(conversation: Conversation, random: Random, lot: float) -> ChatMessage:
    # Most texts are short, and some are larger than any buffer.
    text = "words and ä\u2028" * random.choice((1, 1, 2, 5, 30, 400, 20_000))
    if conversation.outstanding:
        return ChatMessage.tool_result(conversation.outstanding[0], text)
    if lot < 0.45:
        calls = [
            ToolCall(id=new_id(), name="run", arguments="{}") for _ in range(random.randint(0, 3))
        ]
        return ChatMessage.assistant(text, calls)
    if lot < 0.60:
        data = new_id().encode() * random.randint(1, 4_000)
        return ChatMessage.user([Text(text), Image(source=ImageData(data), mime_type="image/png")])
    return ChatMessage.user(text)


if __name__ == "__main__":
    sys.exit(main())
