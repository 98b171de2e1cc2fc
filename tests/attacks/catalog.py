"""The types of the attacks in data/*.toml, and the function that loads them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from msgspec import Struct, convert

DATA: Final = Path(__file__).parent / "data"
LIMITS_FILE: Final = "limits.toml"
SANDBOXES: Final = ("bubblewrap", "landlock", "landlock-alone", "none")
"""The sandboxes, the best first.

`landlock` may create namespaces of its own; `landlock-alone` may not, as in many containers.
"""
USERS: Final = ("root", "user")
OBSERVATIONS: Final = (
    *("proof", "secret", "connection", "process", "dead", "slow", "crash"),
    *("ran", "unasked", "changed", "touched", "created", "missing", "says", "match", "appears"),
)
"""The first word of each item in `Attack.success`; see observations.py."""


class Attack(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One attack: what it tries, and the observation that proves its success.

    Texts may contain `@WORK@` (the workspace), `@HOME@`, `@OUT@` (a folder outside of both),
    `@PROOF@` (a file in it), `@PORT@` (TCP), `@UDP@`, `@SOCKET@` (a Unix socket in `@OUT@`),
    `@ABSTRACT@` (an abstract socket), `@TTY@` (the terminal of another program), `@PYTHON@`,
    `@TESTS@` (this folder) and `@TOKEN@` (unique for the attack). The workspace contains a program `payload`, which creates
    `@PROOF@`, and `runner`, which creates the file `ran` in the working directory and which no rule
    of steno allows by itself.
    """

    id: str
    title: str
    scenario: Literal["command", "rule", "calls", "program", "steno"] = "command"
    success: tuple[str, ...] = ("proof",)
    limit: dict[str, str] = {}
    """Known limits: a sandbox, a user or `user/sandbox` to the name of its reason in limits.toml."""
    sandboxes: tuple[str, ...] = ()
    """The sandboxes to run in; empty for the default of the scenario."""
    users: tuple[str, ...] = USERS
    fast: bool = False
    """Whether the attack is in the share that `make test` runs."""

    # The world before the attack.
    git: bool = False
    """Whether the workspace is a git repository with one commit."""
    files: dict[str, str] = {}
    """Files by path, relative to the workspace."""
    setup: str = ""
    """Commands that the owner of the workspace runs before the attack."""
    settings: str = ""
    """Text for the user's settings file."""
    environment: dict[str, str] = {}
    """Variables of the process of steno, in addition to a usual environment."""
    workspace: str = "@WORK@"
    """The folder that steno works in."""

    # The attack itself, one of these.
    command: str = ""
    """Commands of a script whose call the user approves once; in the scenario `rule`, a command that
    must ask.
    """
    after: tuple[str, ...] = ()
    """Commands before it in the scenario `rule`; the user approves each with the rule it offers."""
    calls: tuple[dict[str, Any], ...] = ()
    """Tool calls of the model, in order: `tool` and the arguments."""
    code: str = ""
    """A Python program that uses the library."""
    run: tuple[str, ...] = ()
    """Command lines of steno, without the word `steno`."""

    # Conditions of calls and command lines.
    approve: Literal["attack", "first", "none"] = "attack"
    """`attack`: each call once; `first`: the first call, with its rule; `none`: no call."""
    scope: str = "session"
    """The scope of the approval of the first call."""
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    mode: str = "act"
    network: bool = False
    turns: tuple[Any, ...] = ()
    """The responses of the model for `run`: a text, or a list of texts and calls."""
    terminal: bool = False
    """Whether the command lines run on a terminal."""
    keys: tuple[str, ...] = ()
    """Pairs of a text to wait for on the terminal and the keys to press then."""
    race: str = ""
    """Commands of another program that run at the same time, in a loop."""

    # After the attack.
    person: tuple[str, ...] = ()
    """Commands that the user runs outside of steno, on a terminal; `git` stands for several."""
    seconds: int = 45
    """The time after which the attack counts as `slow`."""

    @property
    def category(self) -> str:
        """The beginning of the id."""
        return self.id.partition("-")[0]

    def limit_for(self, user: str, sandbox: str) -> str | None:
        """Return the name of the known limit in a configuration; None if there is none."""
        names = (f"{user}/{sandbox}", sandbox, user)
        return next((self.limit[name] for name in names if name in self.limit), None)

    def runs_in(self, user: str, sandbox: str) -> bool:
        """Return whether the attack runs in a configuration."""
        default = SANDBOXES if self.scenario == "command" else SANDBOXES[:1]
        return user in self.users and sandbox in (self.sandboxes or default)


class Reason(Struct, frozen=True, forbid_unknown_fields=True):
    """Why an attack is not prevented in a configuration, and where the documentation says so."""

    text: str
    documented: str
    """A file and a text in it, separated by `: `."""


class Catalog(NamedTuple):
    """All attacks, by id, and what the data says about them."""

    attacks: dict[str, Attack]
    categories: dict[str, str]
    """The titles of the categories, in order."""
    reasons: dict[str, Reason]


def load_catalog(folder: Path = DATA) -> Catalog:
    """Load and check all attacks. Raises ValueError if the data is inconsistent."""
    attacks: dict[str, Attack] = {}
    categories: dict[str, str] = {}
    for file in sorted(folder.glob("*.toml")):
        if file.name == LIMITS_FILE:
            continue
        table = tomllib.loads(file.read_text("utf-8"))
        categories[table["category"]] = table["title"]
        for row in table["attack"]:
            attack = convert({**table.get("defaults", {}), **row}, Attack)
            if attack.category != table["category"] or attack.id in attacks:
                raise ValueError(f"{file.name}: {attack.id}: wrong category, or used twice")
            attacks[attack.id] = attack
    limits = tomllib.loads((folder / LIMITS_FILE).read_text("utf-8"))
    catalog = Catalog(attacks, categories, convert(limits, dict[str, Reason]))
    for attack in attacks.values():
        if problem := "; ".join(_problems(attack, catalog.reasons)):
            raise ValueError(f"{attack.id}: {problem}")
    return catalog


def _problems(attack: Attack, reasons: dict[str, Reason]) -> Sequence[str]:
    found: list[str] = []
    if re.fullmatch(r"[A-Z]{3,4}-\d{3}", attack.id) is None:
        found.append("an id is letters, a hyphen and three digits")
    means = [attack.command, attack.calls, attack.code, attack.run]
    if sum(map(bool, means)) != 1:
        found.append("an attack has a command, calls, code or command lines")
    elif not means[
        ("command", "calls", "program", "steno").index(attack.scenario.replace("rule", "command"))
    ]:
        found.append(f"the scenario {attack.scenario} needs another field")
    found += [f"unknown observation {item}" for item in attack.success if not _is_known(item)]
    found += [f"unknown reason {name}" for name in attack.limit.values() if name not in reasons]
    known = {*SANDBOXES, *USERS, *[f"{user}/{name}" for user in USERS for name in SANDBOXES]}
    found += [f"unknown configuration {name}" for name in {*attack.limit} - known]
    found += [f"unknown sandbox {name}" for name in {*attack.sandboxes} - {*SANDBOXES}]
    return found


def _is_known(observation: str) -> bool:
    return observation.partition(":")[0] in OBSERVATIONS
