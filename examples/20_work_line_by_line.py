"""Work line by line with `steno --plain`, for screen readers and pipes; here a script is the user.

The offline assistant needs no model and no network: it carries out a few fixed sentences.
An approval reads the next line as its answer. `steno` alone opens the full screen.
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
/fork careful
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
    output = done.stdout.replace(str(project.resolve()), "PROJECT")
    print(re.sub(r"[0-9,]+ tokens", "N tokens", output), end="")  # the count depends on the path


if __name__ == "__main__":
    main()
