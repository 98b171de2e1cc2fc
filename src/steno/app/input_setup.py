"""Set up everything that resolves references: files, images, OCR and MCP servers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from steno.app.mcp_servers import ConfiguredServers, find_servers
from steno.app.optional_parts import build_http_transport
from steno.app.settings import OcrEngineSetting, Settings
from steno.app.settings_loader import LoadedSettings
from steno.errors import InvalidValue, Unrecognised
from steno.inputs.images.prepare import (
    MAX_IMAGE_FILE_BYTES,
    BadImage,
    check_image_type,
    image_limits_for,
)
from steno.inputs.mcp.connection import McpServers
from steno.inputs.mcp.server_spec import McpServerSpec
from steno.inputs.mcp.tools import McpTool, McpTools, mcp_server_name
from steno.inputs.ocr.reader import OcrReader, choose_ocr_engine
from steno.inputs.references import InputResolver
from steno.messages.call import MCP_TOOL_PREFIX
from steno.ports import SetupNotice, Transport
from steno.providers.model_discovery import ModelSelection
from steno.render.terminal_text import terminal_line
from steno.suggest import suggest_name
from steno.tools import Workspace

_MAX_FETCHED_BYTES: Final = 25_000_000
_FETCH_TIMEOUT_S: Final = 20
_NO_TOOLS: Final = McpTools((), ())


class McpOptions(NamedTuple):
    """The options about MCP servers."""

    config_files: tuple[str, ...] = ()
    """Paths of files in the form of `.mcp.json`."""
    is_disabled: bool = False
    """Whether no server is used."""


DEFAULT_MCP_OPTIONS: Final = McpOptions()


class ServerSetup(NamedTuple):
    """The servers of a session; the caller closes them."""

    servers: McpServers
    notices: tuple[SetupNotice, ...]
    """Notices about their configuration."""


class InputSetup(NamedTuple):
    """The resolver of references, and the tools of servers."""

    workspace: Workspace
    resolver: InputResolver
    server_setup: ServerSetup
    settings: Settings
    mcp_tools: McpTools = _NO_TOOLS
    """The tools that the servers have listed so far."""

    @property
    def servers(self) -> McpServers:
        """The configured servers."""
        return self.server_setup.servers

    @property
    def notices(self) -> tuple[SetupNotice, ...]:
        """Notices about servers, their tools, and rules that match none of them."""
        specs, tools = self.servers.specs.values(), self.mcp_tools.tools
        rule_notices = _unmatched_rule_notices(self.settings, specs, tools)
        return (*self.server_setup.notices, *self.mcp_tools.notices, *rule_notices)


def set_up_servers(
    loaded: LoadedSettings,
    folder: Path,
    options: McpOptions,
    *,
    notify: Callable[[SetupNotice], object],
) -> ServerSetup:
    """Find the servers for work in a folder; none of them is started yet.

    `notify` receives a notice on each later event of a server. Raises InvalidValue.
    """
    configured = ConfiguredServers((), ())
    if not options.is_disabled:
        configured = find_servers(loaded, os.environ, files=options.config_files)
    problems = [
        SetupNotice("server_misconfigured", f"mcp {spec.name}: {spec.problem}")
        for spec in configured.specs
        if spec.problem and spec.is_trusted
    ]
    servers = McpServers(configured.specs, folder=Workspace(folder).root, notify=notify)
    return ServerSetup(servers, (*configured.notices, *problems))


def build_input_setup(
    loaded: LoadedSettings, model: ModelSelection, workspace: Workspace, server_setup: ServerSetup
) -> InputSetup:
    """Build the resolver of references in a workspace; no request is sent to a server yet."""
    resolver = _build_resolver(loaded.settings, model, workspace, server_setup.servers)
    return InputSetup(workspace, resolver, server_setup, loaded.settings)


def _unmatched_rule_notices(
    settings: Settings, specs: Iterable[McpServerSpec], tools: Sequence[McpTool]
) -> Iterator[SetupNotice]:
    """Yield a notice on each rule about an unknown server or tool: such a rule has no effect."""
    known = {mcp_server_name(spec.name): spec.name for spec in specs}
    listed_servers = {tool.server for tool in tools}
    for rule in (*settings.allow, *settings.deny):
        server = "__".join(rule.tool.split("__")[:2])
        if not server.startswith(MCP_TOOL_PREFIX) or "*" in server:
            continue
        if server not in known:
            advice = (
                suggest_name(server.removeprefix(MCP_TOOL_PREFIX), known.values())
                if known
                else "none is set up"
            )
            text = f"rule {rule}: there is no such MCP server; {advice}"
            yield SetupNotice("server_not_found", text)
            continue
        is_about_tools = rule.tool != server and known[server] in listed_servers
        if is_about_tools and not any(rule.names_tool(tool.definition.name) for tool in tools):
            text = f"rule {rule}: there is no such tool; steno mcp tools {known[server]} lists them"
            yield SetupNotice("tool_unknown", text)


def _build_resolver(
    settings: Settings, model: ModelSelection, workspace: Workspace, servers: McpServers
) -> InputResolver:
    vendor = settings.providers.get(model.vendor)
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
    """Return the reader of text in images; None if it is off, or no engine is installed."""
    if settings.ocr is OcrEngineSetting.OFF:
        return None
    try:
        return OcrReader(choose_ocr_engine(settings.ocr, languages=settings.ocr_languages))
    except Unrecognised:
        return None


def _build_transport() -> Transport:
    return build_http_transport(timeout_s=_FETCH_TIMEOUT_S, max_body_bytes=_MAX_FETCHED_BYTES)


def read_named_image(path: str, workspace: Workspace, *, place: str) -> str | bytes:
    """Return an image that the user names: its path in the workspace, or else its bytes.

    The user may name any file that they can read. Bytes are checked. `place` names the option in
    errors. Raises OSError, InvalidValue.
    """
    name = terminal_line(path)
    try:
        real_path = Path(path).expanduser().resolve(strict=True)
    except RuntimeError:  # the home of an unknown user
        raise InvalidValue(
            f"{name} is in no home folder there is", code="home_unknown", place=place
        ) from None
    if any(real_path.is_relative_to(root) for root in workspace.roots):
        return workspace.relative_of_real_path(str(real_path))
    if not real_path.is_file():  # a pipe may never have data, and a device may never end
        raise InvalidValue(f"{name} is no file", code="not_a_file", place=place)
    with real_path.open("rb") as file:
        return validate_image(file.read(MAX_IMAGE_FILE_BYTES + 1), name, place=place)


def validate_image(data: bytes, name: str, *, place: str) -> bytes:
    """Return the bytes of an image, if they are one and not too large. Raises InvalidValue."""
    if len(data) > MAX_IMAGE_FILE_BYTES:
        raise InvalidValue(
            f"{name} has more than {MAX_IMAGE_FILE_BYTES:,} bytes",
            code="image_too_large",
            place=place,
        )
    try:
        check_image_type(data)
    except BadImage as exc:
        raise InvalidValue(f"{name} {exc}", code=exc.code, place=place) from None
    return data
