"""What opens what a person points at here: files, images and the servers that are set up."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from steno.app.errors import suggest_name
from steno.app.mcp_servers import NOT_TRUSTED, ConfiguredServers, find_servers
from steno.app.optional_parts import build_http_transport
from steno.app.permissions import MCP_TOOL_PREFIX
from steno.app.settings import OcrEngineSetting, Settings
from steno.app.settings_loader import LoadedSettings
from steno.errors import InvalidValue, Unrecognised
from steno.inputs.images.limits import image_limits_for
from steno.inputs.images.prepare import MAX_IMAGE_FILE_BYTES, BadImage, check_image_type
from steno.inputs.mcp.connection import McpServers
from steno.inputs.mcp.server_spec import McpServerSpec
from steno.inputs.mcp.tool_definitions import mcp_server_name
from steno.inputs.mcp.tools import McpTool, McpTools
from steno.inputs.ocr.reader import OcrReader, choose_ocr_engine
from steno.inputs.references import InputResolver
from steno.ports import Transport
from steno.providers.model_discovery import ModelSelection
from steno.render.terminal_text import terminal_line
from steno.tools import Workspace

_MAX_FETCHED_BYTES: Final = 25_000_000
_FETCH_TIMEOUT_S: Final = 20
_NO_TOOLS: Final = McpTools((), ())


class McpOptions(NamedTuple):
    """Which servers are wanted."""

    config_files: tuple[str, ...] = ()
    """Files that look like `.mcp.json`, by name."""
    is_disabled: bool = False
    """Whether none is, whatever is set up."""


class ServerSetup(NamedTuple):
    """The servers that are wanted; whoever asks them something ends them."""

    servers: McpServers
    notes: tuple[str, ...]
    """What a person should know of how they are set up."""


class InputSetup(NamedTuple):
    """What opens things, and the tools that servers bring."""

    workspace: Workspace
    inputs: InputResolver
    server_setup: ServerSetup
    settings: Settings
    mcp_tools: McpTools = _NO_TOOLS
    """What the servers have brought so far."""

    @property
    def servers(self) -> McpServers:
        """The servers that are set up."""
        return self.server_setup.servers

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of the servers, their tools, and the rules about them."""
        specs, tools = self.servers.specs.values(), self.mcp_tools.tools
        strangers = _unmatched_rule_notes(self.settings, specs, tools)
        return (*self.server_setup.notes, *self.mcp_tools.notes, *strangers)


def set_up_servers(
    loaded: LoadedSettings, folder: Path, outside: McpOptions, *, notify: Callable[[str], object]
) -> ServerSetup:
    """Find the servers that are wanted for work in a folder; none of them is started yet.

    `notify` is told what happens to them later on. Raises InvalidValue.
    """
    named = ConfiguredServers((), ())
    if not outside.is_disabled:
        named = find_servers(loaded, os.environ, files=outside.config_files)
    problems = [
        f"mcp {spec.name}: {spec.problem}" for spec in named.specs if _has_unreported_problem(spec)
    ]
    servers = McpServers(named.specs, folder=Workspace(folder).root, notify=notify)
    return ServerSetup(servers, (*named.notes, *problems))


def build_input_setup(
    loaded: LoadedSettings, found: ModelSelection, workspace: Workspace, set_up: ServerSetup
) -> InputSetup:
    """Make what opens things in a workspace; no server is asked for anything yet."""
    inputs = _build_inputs(loaded.settings, found, workspace, set_up.servers)
    return InputSetup(workspace, inputs, set_up, loaded.settings)


def _unmatched_rule_notes(
    settings: Settings, specs: Iterable[McpServerSpec], tools: Sequence[McpTool]
) -> Iterator[str]:
    """Tell of rules about servers and tools that there are not: they protect and allow nothing."""
    known = {mcp_server_name(spec.name): spec.name for spec in specs}
    asked = {tool.server for tool in tools}
    for rule in (*settings.allow, *settings.deny):
        server = "__".join(rule.tool.split("__")[:2])
        if not server.startswith(MCP_TOOL_PREFIX) or "*" in server:
            continue
        if server not in known:
            told = (
                suggest_name(server.removeprefix(MCP_TOOL_PREFIX), known.values())
                if known
                else "none is set up"
            )
            yield f"rule {rule}: there is no such MCP server; {told}"
            continue
        is_about_tools = rule.tool != server and known[server] in asked
        if is_about_tools and not any(rule.names_tool(tool.definition.name) for tool in tools):
            yield f"rule {rule}: there is no such tool; steno mcp tools {known[server]} lists them"


def _has_unreported_problem(spec: McpServerSpec) -> bool:
    """Tell whether nobody has said yet that a server cannot be used."""
    return bool(spec.problem) and spec.problem != NOT_TRUSTED


def _build_inputs(
    settings: Settings, found: ModelSelection, workspace: Workspace, servers: McpServers
) -> InputResolver:
    vendor = settings.providers.get(found.vendor)
    wire = "" if vendor is None or not isinstance(vendor.wire, str) else vendor.wire
    return InputResolver(
        workspace,
        image_limits=image_limits_for(wire),
        ocr=build_ocr(settings),
        transport=_build_transport,
        servers=servers,
        resource_ttl_s=settings.resource_ttl_s,
    )


def build_ocr(settings: Settings) -> OcrReader | None:
    """Return what recognises text; None if that is switched off, or nothing is installed for it."""
    if settings.ocr is OcrEngineSetting.OFF:
        return None
    try:
        return OcrReader(choose_ocr_engine(settings.ocr, languages=settings.ocr_languages))
    except Unrecognised:
        return None


def _build_transport() -> Transport:
    return build_http_transport(timeout_s=_FETCH_TIMEOUT_S, max_body_bytes=_MAX_FETCHED_BYTES)


def read_named_image(path: str, workspace: Workspace, *, place: str) -> str | bytes:
    """Return an image that a person names: its path in the workspace, or else its bytes.

    Whoever types a path at a shell may name any file that he can read. Bytes are looked at before
    they are kept. `place` is where it was named. Raises OSError, InvalidValue.
    """
    name = terminal_line(path)
    try:
        real = Path(path).expanduser().resolve(strict=True)
    except RuntimeError:  # of somebody whom the system does not know
        raise InvalidValue(f"{place}: {name} is in no home folder there is") from None
    if any(real.is_relative_to(root) for root in workspace.roots):
        return workspace.relative_of_real_path(str(real))
    if not real.is_file():  # a pipe may never say anything, and a device may never end
        raise InvalidValue(f"{place}: {name} is no file")
    with real.open("rb") as opened_file:
        return validate_image(opened_file.read(MAX_IMAGE_FILE_BYTES + 1), f"{place}: {name}")


def validate_image(data: bytes, name: str) -> bytes:
    """Return bytes that are an image, and not too many. Raises InvalidValue."""
    if len(data) > MAX_IMAGE_FILE_BYTES:
        raise InvalidValue(f"{name} has more than {MAX_IMAGE_FILE_BYTES:,} bytes")
    try:
        check_image_type(data)
    except BadImage as exc:
        raise InvalidValue(f"{name} {exc}") from None
    return data
