"""A program that works at a desk and waits for a decision; it is killed there.

It takes the folder to work in, and says `asked` when somebody has to decide.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.app.session_setup import open_user_session


async def main(folder: Path) -> None:
    """Say something, and wait for ever."""
    async with open_user_session(folder) as user:
        asyncio.get_running_loop().create_task(user.say("Write two files."))
        await user.until(lambda: user.session.pending_calls)
        sys.stdout.write("asked\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
