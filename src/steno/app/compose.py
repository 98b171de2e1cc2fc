"""Compose an agent from settings, a store, a model, tools and permissions.

No other module depends on all of these parts.
"""

from __future__ import annotations

import asyncio
import os
import sys
from base64 import b64encode
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from msgspec.structs import replace

import steno
from steno.agent import Agent, Approver, Gate, ModelTarget, Permissions
from steno.agent.dispatch import ToolRunner
from steno.agent.permissions.gate import PermissionGate, tool_content, tool_headline
from steno.agent.run_config import Limits
from steno.agent.telemetry.spans import NO_TELEMETRY, Telemetry
from steno.app.environment import hide_variables, user_environment
from steno.app.folders import config_folder, home_folder, own_paths, user_name
from steno.app.mcp import DEFAULT_MCP_OPTIONS, ServerSetup, set_up_servers, unmatched_rule_notices
from steno.app.models import build_target, unknown_model
from steno.app.permissions import GrantsFile, KeyFileSigner
from steno.app.session_lookup import open_store_at
from steno.app.settings import LoadedSettings, OcrEngineSetting, Settings
from steno.app.system_prompt import SystemPromptContext, build_system_prompt, read_instructions
from steno.context import token_counter_for
from steno.errors import InvalidValue, MissingExtra, StenoError, Unavailable
from steno.inputs.images.prepare import image_limits_for
from steno.inputs.mcp.connection import McpServers
from steno.inputs.mcp.tools import McpTools, list_mcp_tools
from steno.inputs.references import InputResolver
from steno.log.conversation import Conversation
from steno.messages.call import AnyToolCall, ToolCall
from steno.ports import PreviewPart, Provider, SetupNotice, Tool, Transport
from steno.providers.model_discovery import EMBEDDED, OFFLINE, ModelSelection
from steno.providers.prices import find_price
from steno.render.terminal_text import terminal_line
from steno.store import MemoryStore, Store
from steno.store.locate import default_address, read_address
from steno.tools import CommandAccess, Toolbox, Workspace
from steno.tools.calls import call_content, call_headline
from steno.tools.protected_paths import PathPolicy
from steno.tools.shell.blocked_access import ALL_DOMAINS
from steno.tools.shell.domain_rules import NETWORK_RULE_NAME
from steno.tools.shell.network_proxy import UpstreamProxy
from steno.tools.shell.sandbox import sandbox_notice
from steno.transport.proxy import proxy_for

_MAX_FETCHED_BYTES: Final = 25_000_000
_FETCH_TIMEOUT_S: Final = 20


class AgentEnvironment(NamedTuple):
    """The parts of an agent that do not depend on the conversation."""

    settings: Settings
    model_selection: ModelSelection
    target: ModelTarget
    """The model that receives the requests, and its limits."""
    provider: Provider
    builtin_tools: tuple[Tool, ...]
    """The tools of steno itself."""
    workspace: Workspace
    resolver: InputResolver
    """Resolves references: files, images and resources."""
    server_setup: ServerSetup
    gate: Gate
    telemetry: Telemetry
    setup_notices: tuple[SetupNotice, ...] = ()
    """Notices for the user, except those about servers."""
    mcp_tools: McpTools = McpTools((), ())
    """The tools that the servers have listed so far."""

    @property
    def tools(self) -> tuple[Tool, ...]:
        """All tools: the built-in ones, and those that servers have listed so far."""
        return (*self.builtin_tools, *self.mcp_tools.tools)

    @property
    def servers(self) -> McpServers:
        """The configured servers."""
        return self.server_setup.servers

    def find_tool(self, name: str) -> Tool | None:
        """Return the tool with this name; None if there is no such tool."""
        return next((tool for tool in self.tools if tool.definition.name == name), None)

    def headline(self, call: AnyToolCall) -> str:
        """Return the headline of a call, which its tool provides if the tool is available."""
        tool = self.find_tool(call.name)
        return call_headline(call) if tool is None else tool_headline(tool, call)

    def call_content(self, call: ToolCall) -> PreviewPart | None:
        """Return the text that a call writes; None if it writes no text.

        If the tool of the call is available, the tool provides the text.
        """
        tool = self.find_tool(call.name)
        return call_content(call) if tool is None else tool_content(tool, call)

    @property
    def notices(self) -> tuple[SetupNotice, ...]:
        """All notices for the user."""
        return (*self.setup_notices, *self.server_notices)

    @property
    def server_notices(self) -> tuple[SetupNotice, ...]:
        """Notices about servers, their tools, and rules that match none of them."""
        rule_notices = unmatched_rule_notices(self.settings, self.servers, self.mcp_tools)
        return (*self.server_setup.notices, *self.mcp_tools.notices, *rule_notices)

    @property
    def supports_tools(self) -> bool:
        """Whether the model supports tools; true unless it is known that it does not."""
        return self.target.tools is not False

    @property
    def _limits(self) -> Limits:
        """The limits of a run, without a cost limit if the price of the model is unknown."""
        limits = self.settings.limits
        return limits if find_price(self.model_selection.name) else replace(limits, cost=None)

    def agent_for(
        self,
        conversation: Conversation,
        *,
        runner: ToolRunner,
        gate: PermissionGate | None = None,
        before_run: Callable[[], Awaitable[object]] | None = None,
        begin_run: Callable[[], tuple[Conversation, Iterable[Tool]]] | None = None,
    ) -> Agent:
        """Build an agent for a conversation.

        `gate` replaces the gate of the environment. The other parameters are those of `Agent`.
        """
        return Agent(
            self.provider,
            conversation,
            tools=self.tools,
            gate=gate or self.gate,
            runner=runner,
            resolver=self.resolver,
            model=self.model_selection.name,
            target=self.target,
            count_tokens=token_counter_for(self.target.model),
            limits=self._limits,
            telemetry=self.telemetry,
            price_of=cache(find_price),
            actor=user_name(),
            before_run=before_run,
            begin_run=begin_run,
        )


@asynccontextmanager
async def open_environment(
    loaded: LoadedSettings, model: ModelSelection, folder: Path, approver: Approver | None
) -> AsyncGenerator[AgentEnvironment]:
    """Open the provider, tools and gate of an agent without a session.

    If the model supports tools, the MCP servers are started and their tools are included.
    """
    server_setup = set_up_servers(loaded, folder, DEFAULT_MCP_OPTIONS, notify=lambda _: None)
    servers = server_setup.servers
    async with (
        servers,
        open_environment_with_servers(loaded, model, folder, approver, server_setup) as environment,
    ):
        if not servers.names or not environment.supports_tools:
            yield environment
            return
        prepare_image = environment.resolver.prepare_image
        mcp_tools = await list_mcp_tools(servers, prepare_image=prepare_image)
        yield environment._replace(mcp_tools=mcp_tools)


@asynccontextmanager
async def open_environment_with_servers(
    loaded: LoadedSettings,
    model: ModelSelection,
    folder: Path,
    approver: Approver | None,
    server_setup: ServerSetup,
    *,
    is_stored: bool = True,
) -> AsyncGenerator[AgentEnvironment]:
    """Open the provider, tools and gate of an agent. The caller starts and closes the servers.

    Without a stored session, no signing key is created.
    """
    settings = loaded.settings
    for vendor in settings.providers.values():
        hide_variables(vendor.key_variables)  # settings may name a key in any way
    async with AsyncExitStack() as stack:
        telemetry = _open_telemetry(settings)
        provider = model.open()
        stack.push_async_callback(provider.close)
        workspace = _open_workspace(folder, settings)
        resolver = _build_resolver(settings, model, workspace, server_setup.servers)
        toolbox = await stack.enter_async_context(
            Toolbox(
                workspace,
                prepare_image=resolver.prepare_image,
                sandbox=settings.sandbox,
                access=CommandAccess(
                    network=settings.network,
                    environment=settings.env,
                    denied_domains=tuple(
                        [
                            rule.pattern or ALL_DOMAINS
                            for rule in settings.deny
                            if rule.tool == NETWORK_RULE_NAME
                        ]
                    ),
                ),
                limits=settings.command_limits,
                environ=user_environment(),
                find_upstream=_find_upstream,
            )
        )
        grants, notices = open_grants(folder)
        sandbox_problem = sandbox_notice(await asyncio.to_thread(lambda: toolbox.sandbox))
        if sandbox_problem is not None:
            notices = (*notices, sandbox_problem)
        permissions = Permissions(
            role=settings.role,
            allow=settings.allow,
            deny=settings.deny,
            auto_run=settings.auto_run,
        )
        gate = Gate(
            permissions, approver, grants=grants, sign_text=KeyFileSigner(creates_key=is_stored)
        )
        yield AgentEnvironment(
            settings=settings,
            model_selection=model,
            target=target_for(model, settings),
            provider=provider,
            builtin_tools=toolbox.tools,
            workspace=workspace,
            resolver=resolver,
            server_setup=server_setup,
            gate=gate,
            telemetry=telemetry,
            setup_notices=notices,
        )


def _open_workspace(folder: Path, settings: Settings) -> Workspace:
    """Open the workspace, in which the files of steno itself are protected."""
    roots = Workspace([folder, *settings.add_dirs]).roots
    own = list(own_paths(os.environ))
    with suppress(InvalidValue):  # without a home folder, there is no default store
        store = default_address() if settings.store is None else read_address(settings.store)
        if isinstance(store.location, Path):
            own += [store.location, *_sqlite_files(store.location)]
    policy = PathPolicy(roots, environ=os.environ, own=own, programs=_find_programs(roots))
    return Workspace(roots, policy=policy)


def _find_programs(roots: tuple[Path, ...]) -> tuple[Path, ...]:
    """Return the files and folders in a workspace that run as steno, outside of every sandbox."""
    environment = Path(sys.prefix)
    parts = (
        *map(Path, steno.__path__),
        *(environment, environment / "pyvenv.cfg", Path(sys.executable)),
        *[Path(folder) for folder in sys.path if folder.endswith("site-packages")],
    )
    found = dict.fromkeys([*parts, *[part.resolve() for part in parts]])
    return tuple([part for part in found if any(root in part.parents for root in roots)])


def _sqlite_files(store: Path) -> list[Path]:
    """Return the files that SQLite keeps beside a store while it is open."""
    return [store.with_name(store.name + ending) for ending in ("-wal", "-shm", "-journal")]


def _find_upstream(url: str) -> UpstreamProxy | None:
    """Return the user's own proxy, through which commands contact approved domains."""
    proxy = proxy_for(url, os.environ)
    if proxy is None:
        return None
    parts = urlsplit(proxy.url)
    authorization = None
    if parts.username is not None:
        text = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = f"Basic {b64encode(text.encode()).decode()}"
    uses_tls = parts.scheme == "https"
    port = parts.port or (443 if uses_tls else 80)
    return UpstreamProxy(parts.hostname or "", port, authorization, uses_tls)


def _build_resolver(
    settings: Settings, model: ModelSelection, workspace: Workspace, servers: McpServers
) -> InputResolver:
    vendor = settings.providers.get(model.vendor)
    wire = "" if vendor is None or not isinstance(vendor.wire, str) else vendor.wire
    return InputResolver(
        workspace,
        image_limits=image_limits_for(wire),
        ocr=None if settings.ocr is OcrEngineSetting.OFF else settings.ocr,
        ocr_languages=settings.ocr_languages,
        transport=_build_transport,
        servers=servers,
        resource_ttl_s=settings.resource_ttl_s,
    )


def _build_transport() -> Transport:
    """Return an HTTP transport. Its first request raises MissingExtra if aiohttp is missing."""
    from steno.transport.http import HttpTransport, TimeLimits  # noqa: PLC0415 - slow to load

    limits = TimeLimits(first_byte_s=_FETCH_TIMEOUT_S, idle_s=_FETCH_TIMEOUT_S)
    return HttpTransport(limits=limits, max_body_bytes=_MAX_FETCHED_BYTES)


def _open_telemetry(settings: Settings) -> Telemetry:
    """Return the telemetry of the settings, `NO_TELEMETRY` if it is off.

    Raises Unavailable if OpenTelemetry is not installed.
    """
    if not settings.telemetry:
        return NO_TELEMETRY
    try:
        from steno.agent.telemetry.opentelemetry import OpenTelemetry  # noqa: PLC0415 - an extra
    except MissingExtra as exc:
        raise Unavailable(str(exc), code=exc.code, place="telemetry") from exc
    return OpenTelemetry(capture_content=settings.capture_content)


def target_for(model: ModelSelection, settings: Settings) -> ModelTarget:
    """Return the target of requests to a model; settings override what its server reports."""
    reported = unknown_model(model.model) if model.known is None else model.known
    return build_target(model.name, model.vendor, reported, settings)


def open_settings_store(settings: Settings, *, is_new: bool = True) -> Store:
    """Open the store of the settings. Raises Unavailable if it cannot be opened.

    `is_new` is false if a session is resumed. In that case, a store that does not exist is not
    created, and an empty store in memory is returned.
    """
    address = default_address() if settings.store is None else read_address(settings.store)
    if not is_new and not address.exists:
        return MemoryStore()
    try:
        return open_store_at(address)
    except Unavailable as exc:
        raise Unavailable(
            f"{exc.message}; use --no-session to work without a store",
            code=exc.code,
            place=exc.place,
        ) from exc


def read_system_prompt(loaded: LoadedSettings, folder: Path) -> tuple[str, tuple[SetupNotice, ...]]:
    """Return the system prompt for work in a folder, and notices about its instruction files."""
    settings = loaded.settings
    user_folder = None if loaded.user_file is None else loaded.user_file.parent
    instructions = read_instructions(folder, loaded.project, user_folder)
    prompt = build_system_prompt(
        SystemPromptContext.current(folder, loaded.project, add_dirs=settings.add_dirs),
        instructions.files,
        replacement=settings.system_prompt,
        appended=settings.append_system_prompt,
    )
    return prompt, instructions.notices


def open_grants(folder: Path) -> tuple[GrantsFile | None, tuple[SetupNotice, ...]]:
    """Open the file of grants; if it cannot be read, return None and a notice.

    Return None without a notice if the home folder is unknown.
    """
    if config_folder(os.environ) is None:
        return None, ()
    grants = GrantsFile(folder)
    try:
        unconfirmed = grants.migrate()
    except StenoError as exc:
        notice = SetupNotice(exc.code, str(exc))
        try:
            grants.read()
        except StenoError:
            return None, (notice,)
        return grants, (notice,)  # the file cannot be written, but its valid grants count
    if not unconfirmed:
        return grants, ()
    text = (
        f"{grants.file}: these rules no longer apply, because they allow too much: "
        f"{', '.join(map(terminal_line, unconfirmed))}; `steno permissions` lists them, and "
        "`steno permissions allow RULE --project` or `--user` confirms one"
    )
    return grants, (SetupNotice("grants_unconfirmed", text),)


# -- notices -----------------------------------------------------------------------------------


def environment_notices(environment: AgentEnvironment, folder: Path) -> Iterator[SetupNotice]:
    """Yield notices about properties of the model and the folder that the user may not expect."""
    settings, model = environment.settings, environment.model_selection
    if model.searched:
        yield SetupNotice("model_not_named", _describe_selection(model))
    if settings.max_cost is not None and find_price(model.name) is None:
        text = f"max_cost: the price of {model.name} is unknown, so the limit has no effect"
        yield SetupNotice("price_unknown", text)
    target = environment.target
    if target.response_tokens != target.max_tokens:
        text = (
            f"max_tokens: a response of {model.name} has at most {target.response_tokens:,} tokens, "
            "so the request asks for no more"
        )
        yield SetupNotice("max_tokens_above_model_limit", text)
    if settings.temperature != target.temperature:
        text = (
            f"temperature: {model.name} accepts at most {target.temperature:g}, so the request has "
            "this temperature"
        )
        yield SetupNotice("temperature_above_model_limit", text)
    window = target.context_tokens
    if window is not None and (target.response_tokens or 0) > window // 2:
        text = (
            f"max_tokens: the context window of {model.name} has {window:,} tokens, including the "
            "response; half of it is reserved for the response"
        )
        yield SetupNotice("max_tokens_above_half_window", text)
    home = home_folder(os.environ)
    if home is not None and home.resolve().is_relative_to(folder):
        text = f"{folder}: contains your home folder; work in the folder of a project to be safe"
        yield SetupNotice("folder_holds_home", text)


def _describe_selection(model: ModelSelection) -> str:
    """Return a notice about a model that the user did not name."""
    if model.code in ("asked_for", "configured"):
        return f"only a provider is named; using {model.name} ({model.reason})"
    if model.vendor == OFFLINE:
        name = "the offline assistant, which is not a language model"
        reason = f" ({model.reason})" if model.code == "key_unused" else ""
    elif model.vendor == EMBEDDED:
        name, reason = "the embedded model, which is small", f" ({model.reason})"
    else:
        return f"no model is configured; using {model.name} ({model.reason})"
    advice = "Set a key such as ANTHROPIC_API_KEY, or start Ollama."
    return f"no model is configured; using {name}{reason}. {advice}"
