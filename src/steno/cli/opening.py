"""What opens what a person points at here: files, images and the servers that are set up."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from steno.cli.configuration import Loaded
from steno.cli.nearest import advice
from steno.cli.servers import NOT_TRUSTED, FoundServers, find_servers
from steno.cli.settings import Recogniser, Settings
from steno.cli.tool_names import FOREIGN
from steno.errors import InvalidValue
from steno.inputs.images.limits import limits_for
from steno.inputs.images.opening import MOST_FILE_BYTES, BadImage, check_kind
from steno.inputs.inputs import Inputs
from steno.inputs.mcp.names import name_of_server
from steno.inputs.mcp.servers import Servers
from steno.inputs.mcp.specs import ServerSpec
from steno.inputs.mcp.tools import McpTool, McpTools
from steno.inputs.ocr.engine import Unrecognised
from steno.inputs.ocr.reading import Ocr, engine_for
from steno.ports import Transport
from steno.printable import on_one_line
from steno.providers.finding import Found
from steno.tools import Workspace

_MOST_FETCHED: Final = 25_000_000
_PATIENCE_S: Final = 20
_NO_TOOLS: Final = McpTools((), ())


class Outside(NamedTuple):
    """Which servers are wanted."""

    config_files: tuple[str, ...] = ()
    """Files that look like `.mcp.json`, by name."""
    is_disabled: bool = False
    """Whether none is, whatever is set up."""


class SetUp(NamedTuple):
    """The servers that are wanted; whoever asks them something ends them."""

    servers: Servers
    notes: tuple[str, ...]
    """What a person should know of how they are set up."""


class Opened(NamedTuple):
    """What opens things, and the tools that servers bring."""

    workspace: Workspace
    inputs: Inputs
    server_setup: SetUp
    settings: Settings
    mcp_tools: McpTools = _NO_TOOLS
    """What the servers have brought so far."""

    @property
    def servers(self) -> Servers:
        """The servers that are set up."""
        return self.server_setup.servers

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of the servers, their tools, and the rules about them."""
        specs, tools = self.servers.specs.values(), self.mcp_tools.tools
        strangers = _rules_of_nothing(self.settings, specs, tools)
        return (*self.server_setup.notes, *self.mcp_tools.notes, *strangers)


def set_up_servers(
    loaded: Loaded, folder: Path, outside: Outside, *, notify: Callable[[str], object]
) -> SetUp:
    """Find the servers that are wanted for work in a folder; none of them is started yet.

    `notify` is told what happens to them later on. Raises InvalidValue.
    """
    named = FoundServers((), ())
    if not outside.is_disabled:
        named = find_servers(loaded, os.environ, files=outside.config_files)
    problems = [f"mcp {spec.name}: {spec.problem}" for spec in named.specs if _is_news(spec)]
    servers = Servers(named.specs, folder=Workspace(folder).root, notify=notify)
    return SetUp(servers, (*named.notes, *problems))


def opened(loaded: Loaded, found: Found, workspace: Workspace, set_up: SetUp) -> Opened:
    """Make what opens things in a workspace; no server is asked for anything yet."""
    inputs = _inputs(loaded.settings, found, workspace, set_up.servers)
    return Opened(workspace, inputs, set_up, loaded.settings)


def _rules_of_nothing(
    settings: Settings, specs: Iterable[ServerSpec], tools: Sequence[McpTool]
) -> Iterator[str]:
    """Tell of rules about servers and tools that there are not: they protect and allow nothing."""
    known = {name_of_server(spec.name): spec.name for spec in specs}
    asked = {tool.server for tool in tools}
    for rule in (*settings.allow, *settings.deny):
        server = "__".join(rule.tool.split("__")[:2])
        if not server.startswith(FOREIGN) or "*" in server:
            continue
        if server not in known:
            told = (
                advice(server.removeprefix(FOREIGN), known.values()) if known else "none is set up"
            )
            yield f"rule {rule}: there is no such MCP server; {told}"
            continue
        is_about_tools = rule.tool != server and known[server] in asked
        if is_about_tools and not any(rule.names_tool(tool.definition.name) for tool in tools):
            yield f"rule {rule}: there is no such tool; steno mcp tools {known[server]} lists them"


def _is_news(spec: ServerSpec) -> bool:
    """Tell whether nobody has said yet that a server cannot be used."""
    return bool(spec.problem) and spec.problem != NOT_TRUSTED


def _inputs(settings: Settings, found: Found, workspace: Workspace, servers: Servers) -> Inputs:
    vendor = settings.providers.get(found.vendor)
    wire = "" if vendor is None or not isinstance(vendor.wire, str) else vendor.wire
    return Inputs(
        workspace,
        image_limits=limits_for(wire),
        ocr=ocr_for(settings),
        transport=_transport,
        servers=servers,
        resource_ttl_s=settings.resource_ttl_s,
    )


def ocr_for(settings: Settings) -> Ocr | None:
    """Return what recognises text; None if that is switched off, or nothing is installed for it."""
    if settings.ocr is Recogniser.OFF:
        return None
    try:
        return Ocr(engine_for(settings.ocr, languages=settings.ocr_languages))
    except Unrecognised:
        return None


def _transport() -> Transport:
    module: Any = import_module("steno.transport.http")  # an extra of the package
    limits = module.TimeLimits(first_byte_s=_PATIENCE_S, idle_s=_PATIENCE_S)
    transport = module.HttpTransport(limits=limits, max_body_bytes=_MOST_FETCHED)
    return cast("Transport", transport)


def image_on_disk(path: str, workspace: Workspace, *, place: str) -> str | bytes:
    """Return an image that a person names: its path in the workspace, or else its bytes.

    Whoever types a path at a shell may name any file that he can read. Bytes are looked at before
    they are kept. `place` is where it was named. Raises OSError, InvalidValue.
    """
    name = on_one_line(path)
    try:
        real = Path(path).expanduser().resolve(strict=True)
    except RuntimeError:  # of somebody whom the system does not know
        raise InvalidValue(f"{place}: {name} is in no home folder there is") from None
    if any(real.is_relative_to(root) for root in workspace.roots):
        return workspace.relative_of_real_path(str(real))
    if not real.is_file():  # a pipe may never say anything, and a device may never end
        raise InvalidValue(f"{place}: {name} is no file")
    with real.open("rb") as opened_file:
        return checked_image(opened_file.read(MOST_FILE_BYTES + 1), f"{place}: {name}")


def checked_image(data: bytes, name: str) -> bytes:
    """Return bytes that are an image, and not too many. Raises InvalidValue."""
    if len(data) > MOST_FILE_BYTES:
        raise InvalidValue(f"{name} has more than {MOST_FILE_BYTES:,} bytes")
    try:
        check_kind(data)
    except BadImage as exc:
        raise InvalidValue(f"{name} {exc}") from None
    return data
