"""A program that waits for an approval until a test kills it.

It takes the folder to work in, and prints `asked` when the request is open.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.app.session_setup import open_user_session


async def main(folder: Path) -> None:
    """Send a prompt, and wait without end."""
    async with open_user_session(folder) as user:
        asyncio.get_running_loop().create_task(user.send("Write two files."))
        await user.until(lambda: user.session.pending_calls)
        sys.stdout.write("asked\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
