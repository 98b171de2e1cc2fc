"""Put everything together: settings, a store, a model, tools and who may use them.

This is the only place that knows who is who.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from steno.agent import Agent, Approver, Gate, ModelTarget, Permissions, Runner
from steno.agent.permissions.gate import PermissionGate
from steno.agent.runner import ToolRunner
from steno.agent.telemetry.spans import NO_TELEMETRY, Telemetry
from steno.app.folders import config_folder, home_folder, user_name
from steno.app.input_setup import (
    InputSetup,
    McpOptions,
    ServerSetup,
    build_input_setup,
    set_up_servers,
)
from steno.app.model_limits import build_target, unknown_model
from steno.app.optional_parts import build_telemetry
from steno.app.permissions import GrantsFile, KeyFileSigner
from steno.app.prompt import PromptEnvironment, build_system_prompt, read_instructions
from steno.app.prompt_input import PreparedPrompt
from steno.app.select_model import choose_model
from steno.app.sessions import (
    SessionStart,
    apply_start,
    begin_session,
    open_session,
    open_store_quietly,
    session_folder,
)
from steno.app.settings import Settings
from steno.app.settings_loader import LoadedSettings
from steno.context import estimate_tokens, token_counter_for
from steno.errors import InvalidValue, StenoError, Unavailable
from steno.inputs.mcp.tools import McpTools, list_mcp_tools
from steno.log.conversation import Conversation
from steno.ports import Provider, Tool
from steno.providers.model_discovery import EMBEDDED, OFFLINE, ModelSelection
from steno.providers.prices import find_price
from steno.store import MemoryStore, Store
from steno.store.locate import default_address, read_address
from steno.tools import CommandAccess, Toolbox, Workspace

_ReadPrompt: TypeAlias = Callable[[InputSetup, Conversation | None], Awaitable[PreparedPrompt]]
_DEFAULT_MCP_OPTIONS: Final = McpOptions()


class PreparedRun(NamedTuple):
    """An agent that is ready to run, and what else there is to know."""

    agent: Agent
    store: Store
    model_selection: ModelSelection
    """The model, and how it was found."""
    target: ModelTarget
    """What is asked of the model, and what it can."""
    tools: tuple[Tool, ...]
    prompt: PreparedPrompt
    """What is to be said first."""
    notes: tuple[str, ...]
    """What a person should know before it begins."""

    @property
    def model(self) -> str:
        """What the record calls the model."""
        return self.model_selection.name


class AgentEnvironment(NamedTuple):
    """What it takes to work in a folder, whatever the conversation."""

    settings: Settings
    model_selection: ModelSelection
    provider: Provider
    builtin_tools: tuple[Tool, ...]
    """The tools that are always there."""
    input_setup: InputSetup
    gate: Gate
    telemetry: Telemetry
    setup_notes: tuple[str, ...] = ()
    """What a person should know of it, but for servers."""

    @property
    def tools(self) -> tuple[Tool, ...]:
        """All tools: its own, and those that servers have brought so far."""
        return (*self.builtin_tools, *self.input_setup.mcp_tools.tools)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of it."""
        return (*self.setup_notes, *self.input_setup.notes)

    @property
    def target(self) -> ModelTarget:
        """What is asked of the model, and what it can."""
        return environment_target(self.model_selection, self.settings)

    @property
    def supports_tools(self) -> bool:
        """Whether the model calls any, as far as is known."""
        return self.target.tools is not False

    def with_mcp_tools(self, foreign: McpTools) -> AgentEnvironment:
        """Return the same with what servers have brought by now."""
        return self._replace(input_setup=self.input_setup._replace(mcp_tools=foreign))

    def agent_for(
        self, conversation: Conversation, *, runner: ToolRunner, gate: PermissionGate | None = None
    ) -> Agent:
        """Make an agent for a conversation; another gate may stand before the usual one."""
        target = self.target
        return Agent(
            self.provider,
            conversation,
            tools=self.tools,
            gate=gate or self.gate,
            runner=runner,
            resolver=self.input_setup.inputs,
            model=self.model_selection.name,
            target=target,
            count=token_counter_for(target.model),
            limits=self.settings.limits,
            telemetry=self.telemetry,
            price_of=cache(find_price),
            actor=user_name(),
        )


@asynccontextmanager
async def prepare_run(
    loaded: LoadedSettings,
    start: SessionStart,
    *,
    keeps: bool = True,
    mode: str | None = None,
    approver: Approver | None = None,
    read: _ReadPrompt,
    outside: McpOptions = _DEFAULT_MCP_OPTIONS,
    say: Callable[[str], object] = lambda _: None,
    notify: Callable[[str], object] = lambda _: None,
) -> AsyncGenerator[PreparedRun]:
    """Make an agent for a session; everything is closed behind it.

    All the rest is found before a session is begun: what fails here leaves nothing behind. Nor
    does a prompt that cannot be `read`, or of which it is known that the model cannot.
    """
    settings = loaded.settings
    async with AsyncExitStack() as stack:
        store = (
            None
            if start.is_new
            else stack.enter_context(open_settings_store(settings, is_new=False))
        )
        going_on = None if store is None else open_session(store, start)
        found = await choose_model(loaded, "" if going_on is None else going_on.model or "")
        equipment = await stack.enter_async_context(
            open_environment(loaded, found, start.folder, approver, outside, say=say, notify=notify)
        )
        told, notes = read_system_prompt(loaded, start.folder)
        said = await read(equipment.input_setup, going_on)
        check_prompt_fits(equipment, said.text if going_on is not None else told + said.text)
        if store is None:
            store = stack.enter_context(open_settings_store(settings) if keeps else MemoryStore())
        conversation = going_on  # which is false where it is empty
        if conversation is None:
            conversation = begin_session(store, start.folder, told, settings.mode)
        apply_start(conversation, start, mode)
        agent = equipment.agent_for(conversation, runner=Runner(store))
        notes += (*equipment.notes, *said.notes, *environment_notes(equipment, start.folder))
        if going_on is not None:
            notes += tuple(session_notes(store, going_on, start.folder))
        yield PreparedRun(agent, store, found, equipment.target, equipment.tools, said, notes)


@asynccontextmanager
async def open_environment(
    loaded: LoadedSettings,
    found: ModelSelection,
    folder: Path,
    approver: Approver | None,
    outside: McpOptions = _DEFAULT_MCP_OPTIONS,
    *,
    say: Callable[[str], object] = lambda _: None,
    notify: Callable[[str], object] = lambda _: None,
) -> AsyncGenerator[AgentEnvironment]:
    """Make provider, tools and gate for work in a folder; everything is closed behind it.

    Servers are asked for their tools and waited for; `say` is told so, and `notify` what happens
    to them later on.
    """
    set_up = set_up_servers(loaded, folder, outside, notify=notify)
    servers = set_up.servers
    async with servers, open_environment_beside(loaded, found, folder, approver, set_up) as bare:
        if not servers.names or not bare.supports_tools:
            yield bare
            return
        say(f"starting {', '.join(servers.names)}")
        yield bare.with_mcp_tools(
            await list_mcp_tools(servers, prepare_image=bare.input_setup.inputs.prepare_image)
        )


@asynccontextmanager
async def open_environment_beside(
    loaded: LoadedSettings,
    found: ModelSelection,
    folder: Path,
    approver: Approver | None,
    set_up: ServerSetup,
) -> AsyncGenerator[AgentEnvironment]:
    """Make provider, tools and gate beside servers that are not asked here, and outlive it all."""
    settings = loaded.settings
    async with AsyncExitStack() as stack:
        telemetry = _open_telemetry(settings)
        provider = found.open()
        stack.push_async_callback(provider.close)
        workspace = Workspace([folder, *settings.add_dirs])
        things = build_input_setup(loaded, found, workspace, set_up)
        toolbox = await stack.enter_async_context(
            Toolbox(
                workspace,
                prepare_image=things.inputs.prepare_image,
                sandbox=settings.sandbox,
                access=CommandAccess(network=settings.network, environment=settings.env),
            )
        )
        grants, notes = _open_grants(folder)
        permissions = Permissions(role=settings.role, allow=settings.allow, deny=settings.deny)
        gate = Gate(permissions, approver, grants=grants, seal=KeyFileSigner())
        yield AgentEnvironment(
            settings, found, provider, toolbox.tools, things, gate, telemetry, notes
        )


def environment_target(found: ModelSelection, settings: Settings) -> ModelTarget:
    """Return what is asked of a model; what the user says of it counts more than its server."""
    said = unknown_model(found.model) if found.known is None else found.known
    return build_target(found.name, found.vendor, said, settings)


def open_settings_store(settings: Settings, *, is_new: bool = True) -> Store:
    """Open the store; where a session is to go on and there is no store, nothing is in it."""
    address = default_address() if settings.store is None else read_address(settings.store)
    if not is_new and not address.exists:
        return MemoryStore()
    try:
        return open_store_quietly(address)
    except Unavailable as exc:
        raise Unavailable(f"{exc}; --no-session does without a store") from exc


def check_prompt_fits(equipment: AgentEnvironment, said: str) -> None:
    """Refuse what an embedded model cannot read, before it is loaded. Raises InvalidValue."""
    found, room = equipment.model_selection, equipment.target.context_tokens
    if found.vendor != EMBEDDED or room is None:
        return
    tokens = estimate_tokens(said)
    if tokens > room:
        raise InvalidValue(
            f"prompt: it takes about {tokens:,} tokens, and {found.name} reads {room:,} at once; "
            "say less, name files instead of their content, or choose another by --model"
        )


def read_system_prompt(loaded: LoadedSettings, folder: Path) -> tuple[str, tuple[str, ...]]:
    """Return what a model reads first in a folder, and what a person should know of it."""
    settings = loaded.settings
    own = None if loaded.user_file is None else loaded.user_file.parent
    instructions = read_instructions(folder, loaded.project, own)
    prompt = build_system_prompt(
        PromptEnvironment.current(folder, loaded.project, add_dirs=settings.add_dirs),
        instructions.files,
        replacement=settings.system_prompt,
        appended=settings.append_system_prompt,
    )
    return prompt, instructions.notes


def _open_grants(folder: Path) -> tuple[GrantsFile | None, tuple[str, ...]]:
    """Return what was allowed for good, and what to say where that cannot be read: then nothing is."""
    if config_folder(os.environ) is None:
        return None, ()
    grants = GrantsFile(folder)
    try:
        grants.rules()
    except StenoError as exc:
        return None, (str(exc),)
    return grants, ()


def _open_telemetry(settings: Settings) -> Telemetry:
    if not settings.telemetry:
        return NO_TELEMETRY
    return build_telemetry(capture_content=settings.capture_content)


# -- what a person should know -----------------------------------------------------------------


def environment_notes(equipment: AgentEnvironment, folder: Path) -> Iterator[str]:
    """Tell of the model and of the folder what may come as a surprise."""
    settings, found = equipment.settings, equipment.model_selection
    if found.searched:
        yield f"no model was named; {found.name} is there ({found.reason}){_setup_advice(found)}"
    if settings.max_cost is not None and find_price(found.name) is None:
        yield f"max_cost: nobody knows the price of {found.name}, so this is no limit"
    target = equipment.target
    if target.answer_tokens != target.max_tokens:
        yield f"max_tokens: {found.name} says {target.answer_tokens:,} at most, so no more is asked for"
    if (
        target.context_tokens is not None
        and (target.answer_tokens or 0) > target.context_tokens // 2
    ):
        reads = f"{found.name} reads {target.context_tokens:,} tokens at once, its answer included"
        yield f"max_tokens: {reads}; half of that is kept free for the answer"
    home = home_folder(os.environ)
    if home is not None and home.resolve().is_relative_to(folder):
        yield f"{folder}: your home folder is in it, with all that it holds; a project is safer"


def _setup_advice(found: ModelSelection) -> str:
    """Say what to do for real work, where what was found is no match for it."""
    if found.vendor not in (EMBEDDED, OFFLINE):
        return ""
    return "; for real work set a key such as ANTHROPIC_API_KEY, or start Ollama: steno models"


def session_notes(store: Store, conversation: Conversation, folder: Path) -> Iterator[str]:
    """Tell if a session that goes on was begun in another folder."""
    begun_in = session_folder(store.header(conversation.id))
    if begun_in is not None and begun_in != str(folder):
        yield f"session: it was begun in {begun_in}, and goes on in {folder}"
