"""Ids are UUIDs of version 7 that sort in the order in which they were made."""

import subprocess
import sys
import threading
import uuid

from steno.ids import new_id


def test_an_id_is_a_uuid_of_version_7() -> None:
    for _ in range(1_000):
        id = new_id()
        read = uuid.UUID(id)
        assert (read.version, read.variant, str(read)) == (7, uuid.RFC_4122, id)


def test_ids_of_all_threads_are_different_and_those_of_one_are_in_order() -> None:
    made: dict[int, list[str]] = {}

    def make(number: int) -> None:
        made[number] = [new_id() for _ in range(5_000)]

    threads = [threading.Thread(target=make, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(set().union(*made.values())) == 20_000
    assert all(ids == sorted(ids) for ids in made.values())


_FORK = """
import os
from steno.ids import new_id
new_id()
child = os.fork()
os.write(1, new_id()[19:].encode() + b"\\n")
if child:
    os.waitpid(child, 0)
"""


def test_a_forked_process_does_not_use_the_random_digits_of_its_parent() -> None:
    ran = subprocess.run([sys.executable, "-c", _FORK], check=True, capture_output=True, text=True)
    digits = ran.stdout.split()
    assert len(set(digits)) == len(digits) == 2
