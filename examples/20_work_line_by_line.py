"""Work at the terminal line by line, as a screen reader would have it read; here from a script.

`steno` alone opens the full screen, with the same commands. The offline assistant needs no model
and no network: it does literally what it is told. A question takes the next line as its answer.
"""

import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

SCRIPT = """\
read notes.txt
run rm notes.txt
reason we still need it
/fork calmer
list the files
/quit
"""


def main() -> None:
    with TemporaryDirectory() as folder:
        project, home = Path(folder, "project"), Path(folder, "home")
        project.mkdir()
        home.mkdir()
        (project / "notes.txt").write_text("ship on Friday\n")
        command = [sys.executable, "-m", "steno", "--plain", "--model", "offline"]
        done = subprocess.run(
            command,
            input=SCRIPT,
            cwd=project,
            env={"HOME": str(home), "PATH": "/usr/bin:/bin", "STENO_SANDBOX": "off"},
            capture_output=True,
            text=True,
            check=True,
        )
    said = done.stdout.replace(str(project.resolve()), "PROJECT")
    print(re.sub(r"[0-9,]+ tokens", "N tokens", said), end="")  # the path is part of what is said


if __name__ == "__main__":
    main()
