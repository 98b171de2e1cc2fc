"""A program that finds lines by a regular expression and can be killed at any time.

Python's `re` may run forever on a pattern that a model wrote, and a process cannot interrupt its
own match. The match therefore runs in a separate process, which executes this file and imports
nothing from steno. The program first reads a flag for ignoring case and a pattern, and responds
with an error text, which is empty for a valid pattern. It then reads texts, each with a maximum
number of lines to find, and responds to each with the numbers of the matching lines. Numbers,
lengths and counts are sent as 8 bytes in the native byte order.
"""

import re
import sys
from array import array
from io import BytesIO

NUMBER_BYTES = 8


def find_matching_lines(pattern: re.Pattern[str], text: bytes, max_lines: int) -> "array[int]":
    """Return the numbers of the first `max_lines` matching lines, counted from 1."""
    found = array("Q")
    # A file yields one line at a time; a list of all lines may need much more memory than the text.
    for number, line in enumerate(BytesIO(text), start=1):
        if pattern.search(
            line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "surrogateescape")
        ):
            found.append(number)
            if len(found) >= max_lines:
                break
    return found


def encode_number(value: int) -> bytes:
    """Encode a number for the exchange between the two processes."""
    return value.to_bytes(NUMBER_BYTES, sys.byteorder)


def main() -> None:
    """Read the pattern, then respond to each text until the input ends."""
    receive, send = sys.stdin.buffer, sys.stdout.buffer

    def receive_number() -> int:
        return int.from_bytes(receive.read(NUMBER_BYTES), sys.byteorder)

    flags = re.IGNORECASE if receive_number() else re.NOFLAG
    try:
        pattern = re.compile(receive.read(receive_number()).decode(), flags)
    except (re.error, OverflowError, RecursionError) as exc:
        error = str(exc).encode()
        send.write(encode_number(len(error)) + error)
        return
    send.write(encode_number(0))
    send.flush()
    while max_lines := receive_number():
        found = find_matching_lines(pattern, receive.read(receive_number()), max_lines)
        send.write(encode_number(len(found)) + found.tobytes())
        send.flush()


if __name__ == "__main__":
    main()
