"""Run attacks one after the other, as the current user and in one sandbox.

    python -m tests.attacks.worker USER SANDBOX FOLDER     (ids on stdin, a JSON object per line on stdout)

steno runs in a process of its own for each attack, so that an attack on it does not end the worker.
"""

from __future__ import annotations

import ctypes
import json
import os
import pty
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, final

from tests.app.scripted_vendor import Call, Turn, run_vendor
from tests.attacks.catalog import Attack, load_catalog
from tests.attacks.world import GIT_STEPS, SECRET, World, snapshot

PATIENCE_S: Final = 60
"""The most time that an attack may take."""
_STEP_S: Final = 20
"""The most time that a command of the user may take."""
_SILENCE_S: Final = 8
"""The time without output after which a program on a terminal waits for more keys."""


class Verdict(NamedTuple):
    """The result of an attack in a configuration."""

    id: str
    succeeded: tuple[str, ...]
    """The observations that prove the success of the attacker; empty if it was withstood."""
    error: str
    """A fault of the attack or of the harness; empty if there is none."""
    seconds: float
    text: str
    """The output, for a closer look."""


class Evidence(NamedTuple):
    """What is known after an attack."""

    text: str = ""
    output: bytes = b""
    asked: Sequence[str] = ()
    ran: Sequence[str] = ()
    last: str = ""
    seconds: float = 0.0
    died: bool = False
    crashed: bool = False


def main(user: str, sandbox: str, base: Path) -> None:
    """Run the attacks whose ids come on standard input."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # orphans become children of this process
    catalog = load_catalog()
    for line in sys.stdin:
        verdict = run_attack(catalog.attacks[line.strip()], base, sandbox=sandbox)
        print(json.dumps(verdict._asdict()), flush=True)


def run_attack(attack: Attack, base: Path, *, sandbox: str) -> Verdict:
    """Run an attack in a fresh folder and return the verdict."""
    folder = base / attack.id
    started = time.monotonic()
    found: tuple[str, ...] = ()
    error, text = "", ""
    try:
        with World(attack, folder, python=sys.executable) as world:
            world.furnish()
            found, text = _attack(attack, world, sandbox)
    except (ValueError, LookupError, OSError, subprocess.SubprocessError) as exc:
        error = f"{type(exc).__name__}: {exc}"
    finally:
        _end_children()
        _remove(folder)
        for shared in ("/tmp", "/dev/shm"):
            for stray in Path(shared).glob(f"attack-{folder.name}-{os.getpid()}*"):
                stray.unlink()
    return Verdict(attack.id, found, error, time.monotonic() - started, text)


def _attack(attack: Attack, world: World, sandbox: str) -> tuple[tuple[str, ...], str]:
    watched = {
        item: Path(world.fill(item.partition(":")[2]))
        for item in attack.success
        if item.partition(":")[0] in ("changed", "touched", "created", "missing")
    }
    before = snapshot(watched)
    with ExitStack() as stack:
        if attack.race:
            stack.callback(_start_racer(attack, world))
        evidence = _run_steno(attack, world, sandbox)
    processes = _surviving(world.token)
    connected = world.received()
    if attack.person:
        world.proof.unlink(missing_ok=True)
        steps = [
            each for step in attack.person for each in (GIT_STEPS if step == "git" else (step,))
        ]
        for step in steps:
            run_on_terminal(
                ["/bin/bash", "-c", world.fill(step)], world.environment(), world.work, _STEP_S
            )
    after = snapshot(watched)
    facts: dict[str, bool] = {
        "proof": os.path.lexists(world.proof),
        "secret": SECRET in evidence.text or SECRET.encode() in evidence.output,
        "connection": connected or world.received(),
        "process": processes,
        "dead": evidence.died,
        "slow": evidence.seconds > attack.seconds,
        "crash": evidence.crashed,
        "ran": evidence.last in evidence.ran,
        "unasked": evidence.last in evidence.ran and evidence.last not in evidence.asked,
    }
    on_terminal = world.shown_on_terminal()
    found: list[str] = []
    for item in attack.success:
        kind, _, value = item.partition(":")
        match kind:
            case "changed" | "touched":
                is_true = before[item] != after[item]
            case "created":
                is_true = before[item] is None and after[item] is not None
            case "missing":
                is_true = before[item] is not None and after[item] is None
            case "says":
                is_true = world.fill(value) in evidence.text + evidence.output.decode(
                    errors="replace"
                )
            case "match":
                pattern = re.compile(value.encode(), re.DOTALL)
                is_true = pattern.search(evidence.output + evidence.text.encode()) is not None
            case "appears":
                is_true = world.fill(value).encode() in on_terminal
            case _:
                is_true = facts[kind]
        found += [item] if is_true else []
    text = f"{evidence.text}\n{evidence.output.decode(errors='backslashreplace')}"
    asked = f"asked {list(evidence.asked)}, ran {list(evidence.ran)}"
    return tuple(found), f"{text.strip()[-4000:]}\n[{asked}, {evidence.seconds:.1f} s]"


# -- steno ---------------------------------------------------------------------------------------


def _run_steno(attack: Attack, world: World, sandbox: str) -> Evidence:
    if attack.scenario == "steno":
        return _run_command_lines(attack, world, sandbox)
    reading, writing = os.pipe()
    started = time.monotonic()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _be_steno(attack, world, sandbox, writing)
    os.close(writing)
    data, died = _wait_for_report(pid, reading)
    seconds = time.monotonic() - started
    if not data:
        return Evidence(died=died, seconds=seconds)
    outcome: dict[str, Any] = json.loads(data)
    if "error" in outcome:
        raise ValueError(outcome["error"])
    if "Traceback" in outcome["text"] and attack.scenario == "program":
        raise ValueError(outcome["text"][-400:])
    return Evidence(
        text=outcome["text"],
        asked=outcome.get("asked", ()),
        ran=outcome.get("ran", ()),
        last=outcome.get("last", ""),
        seconds=seconds,
        died=died,
    )


def _be_steno(attack: Attack, world: World, sandbox: str, writing: int) -> None:
    """Be the process of steno, and never return."""
    from tests.attacks import scenarios

    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for file in range(3):
            os.dup2(nothing, file)
        os.environ.clear()
        os.environ.update(world.steno_environment())
        os.chdir(world.workspace)
        if attack.scenario == "program":
            outcome = scenarios.run_program(world.fill(attack.code), sandbox=sandbox)
        else:
            filled = _fill_calls(attack, world)
            outcome = scenarios.run_calls(filled, world.workspace, sandbox=sandbox)
        scenarios.report(outcome, writing)
    except BaseException as exc:  # noqa: BLE001 - the worker reports it
        problem = scenarios.Outcome(error=f"{type(exc).__name__}: {exc}")
        scenarios.report(problem, writing)
    finally:
        os._exit(0)


def _fill_calls(attack: Attack, world: World) -> Attack:
    from msgspec.structs import replace

    calls = tuple(
        [
            {
                name: world.fill(value) if isinstance(value, str) else value
                for name, value in row.items()
            }
            for row in attack.calls
        ]
    )
    names = ("allow", "deny", "after")
    rules = {name: tuple(map(world.fill, getattr(attack, name))) for name in names}
    return replace(attack, command=world.fill(attack.command), calls=calls, **rules)


def _wait_for_report(pid: int, reading: int) -> tuple[bytes, bool]:
    """Return the report of a process, and whether it ended or stopped before it reported."""
    data = b""
    deadline = time.monotonic() + PATIENCE_S
    try:
        while (rest := deadline - time.monotonic()) > 0:
            if select.select([reading], [], [], min(rest, 0.2))[0]:
                piece = os.read(reading, 1 << 20)
                if not piece:
                    return data, not data
                data += piece
            elif _is_stopped(pid):
                return data, True
        return data, False
    finally:
        os.close(reading)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)


def _is_stopped(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2][:1] in b"TtZ"
    return False


# -- command lines -------------------------------------------------------------------------------


def _run_command_lines(attack: Attack, world: World, sandbox: str) -> Evidence:
    slowest = 0.0
    output = b""
    died = crashed = False
    with ExitStack() as stack:
        settings = world.home / ".config/steno/config.toml"
        known = settings.read_text() if settings.exists() else ""
        if attack.turns:
            turns = [_read_turn(turn, world) for turn in attack.turns]
            vendor = stack.enter_context(run_vendor(*turns))
            known = f'model = "lab/tester"\n{known}\n{vendor.settings}'
        settings.write_text(known)
        environment = {
            "STENO_SANDBOX": "off" if sandbox == "none" else "auto",
            **world.steno_environment(),
        }
        for line in attack.run:
            argv = [sys.executable, "-P", "-m", "steno", *shlex.split(world.fill(line))]
            started = time.monotonic()
            if attack.terminal:
                shown, status = run_on_terminal(
                    argv,
                    environment,
                    world.workspace,
                    PATIENCE_S,
                    keys=[*map(world.fill, attack.keys)],
                )
            else:
                shown, status = _run_program(argv, environment, world.workspace)
            output += shown
            slowest = max(slowest, time.monotonic() - started)
            died = died or status is None or status < 0
            crashed = crashed or b"Traceback (most recent call last)" in shown
    return Evidence(output=output, seconds=slowest, died=died, crashed=crashed or died)


def _read_turn(turn: Any, world: World) -> Turn:
    if isinstance(turn, str):
        return world.fill(turn)
    steps: list[str | Call] = []
    for number, step in enumerate(turn):
        if isinstance(step, str):
            steps.append(world.fill(step))
            continue
        arguments = {
            name: world.fill(value) if isinstance(value, str) else value
            for name, value in step.items()
            if name != "tool"
        }
        steps.append(Call(step["tool"], arguments, f"call_{number}_{os.urandom(3).hex()}"))
    return steps


def _run_program(
    argv: Sequence[str], environment: Mapping[str, str], folder: Path
) -> tuple[bytes, int | None]:
    """Run a program without a terminal; return its output, and its status or None after a timeout."""
    with subprocess.Popen(
        argv,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate(timeout=PATIENCE_S)
            return output, None
    return output, process.returncode


def run_on_terminal(
    argv: list[str],
    environment: Mapping[str, str],
    folder: Path,
    patience_s: float,
    *,
    keys: Sequence[str] = (),
) -> tuple[bytes, int | None]:
    """Run a program on a terminal of its own; return what it showed, and its status.

    `keys` are pairs of a text to wait for and the keys to press then. A program that shows nothing
    new for a while after the last keys is ended. Without `keys`, `q` and the end of input end a
    pager. The status is None if the time was not enough.
    """
    pid, terminal = pty.fork()
    if pid == 0:
        try:
            os.chdir(folder)
            os.execve(argv[0], argv, {**environment, "LINES": "40", "COLUMNS": "100"})
        finally:
            os._exit(127)
    shown = _Screen(terminal, keys)
    deadline = time.monotonic() + patience_s
    try:
        while (rest := deadline - time.monotonic()) > 0:
            if not shown.read(min(rest, 0.5), has_keys=bool(keys)) or shown.is_over:
                break
    finally:
        status = _end(pid) if shown.is_over else _reap(pid, deadline)
        os.close(terminal)
    return shown.data, status


@final
class _Screen:
    """What a program has shown, and the keys that are still to be pressed."""

    def __init__(self, terminal: int, keys: Sequence[str]) -> None:
        self.data = b""
        self._terminal = terminal
        self._keys = list(zip(keys[::2], keys[1::2], strict=True))
        self._seen = 0
        self._silent_since = 0.0

    @property
    def is_over(self) -> bool:
        """Whether all keys were pressed, and nothing was shown for a while."""
        since = self._silent_since
        return bool(since) and time.monotonic() - since > _SILENCE_S

    def read(self, seconds: float, *, has_keys: bool) -> bool:
        """Read for a while, and press the next keys; return False at the end of the output."""
        if not select.select([self._terminal], [], [], seconds)[0]:
            if not has_keys:
                with suppress(OSError):
                    os.write(self._terminal, b"q\x04")
            elif not self._keys:
                self._silent_since = self._silent_since or time.monotonic()
            return True
        try:
            piece = os.read(self._terminal, 65_536)
        except OSError:  # the program has closed its end
            return False
        self.data += piece
        self._silent_since = 0.0
        while self._keys and (at := self.data.find(self._keys[0][0].encode(), self._seen)) >= 0:
            text, press = self._keys.pop(0)
            self._seen = at + len(text.encode())
            os.write(self._terminal, press.encode().decode("unicode_escape").encode("latin-1"))
        return bool(piece)


def _end(pid: int) -> int:
    """End a program that waits for more keys; this is no failure of the program."""
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return 0


def _reap(pid: int, deadline: float) -> int | None:
    while time.monotonic() < max(deadline, 1):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


# -- processes -----------------------------------------------------------------------------------


def _start_racer(attack: Attack, world: World) -> Any:
    """Start the commands of `race` in an endless loop; return the function that ends it."""
    loop = f"while :; do {world.fill(attack.race)}\ndone"
    racer = subprocess.Popen(
        ["/bin/bash", "-c", loop],
        cwd=world.work,
        env=world.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )

    def end() -> None:
        os.killpg(racer.pid, signal.SIGKILL)
        racer.wait()

    return end


def _surviving(token: str) -> bool:
    """Return whether a process of the attack still runs after a few seconds."""
    deadline = time.monotonic() + 3
    while _has_token(token):
        if time.monotonic() > deadline:
            return True
        time.sleep(0.1)
    return False


def _has_token(token: str) -> bool:
    own = {str(os.getpid()), str(os.getppid())}
    for folder in Path("/proc").glob("[0-9]*"):
        if folder.name not in own:
            with suppress(OSError):
                if token.encode() in (folder / "cmdline").read_bytes():
                    return True
    return False


def _end_children() -> None:
    """Kill every descendant of this process, in rounds."""
    for _ in range(200):
        children = [*_descendants(os.getpid())]
        for pid in children:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not children:
            return
        time.sleep(0.01)


def _descendants(pid: int) -> Iterator[int]:
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from _descendants(int(child))
                yield int(child)


def _remove(folder: Path) -> None:
    """Remove the folder of an attack, even if it changed modes."""
    for _ in range(3):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        subprocess.run(["chmod", "-R", "u+rwX", folder], check=False, capture_output=True)
    subprocess.run(["rm", "-rf", folder], check=False, capture_output=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
