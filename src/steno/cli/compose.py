"""Put everything together: settings, a store, a model, tools and who may use them.

This is the only place that knows who is who.
"""

from __future__ import annotations

import getpass
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias, cast

from steno.agent import Agent, Approver, Gate, Permissions, Runner, Target
from steno.agent.gate import Decides
from steno.agent.runner import Runs
from steno.agent.telemetry import NO_TELEMETRY, Telemetry
from steno.cli.choosing import choose_model
from steno.cli.configuration import Loaded
from steno.cli.folders import config_folder, home_folder
from steno.cli.grants import GrantsFile
from steno.cli.instructions import read_instructions
from steno.cli.knowing import target_of, unheard_of
from steno.cli.opening import Opened, Outside, SetUp, opened, set_up_servers
from steno.cli.place import quietly_opened
from steno.cli.prompt import Surroundings, build_system_prompt
from steno.cli.saying import Said
from steno.cli.seal import OwnSeal
from steno.cli.session import Start, folder_of, go_on, new_session, open_session
from steno.cli.settings import Settings
from steno.context import counter_for, estimate_tokens
from steno.conversation import Conversation
from steno.errors import InvalidValue, StenoError, Unavailable
from steno.inputs.mcp.tools import McpTools, tools_of
from steno.ports import Provider, Tool
from steno.providers.finding import Found
from steno.providers.looking import EMBEDDED, OFFLINE
from steno.providers.prices import price_of
from steno.store import MemoryStore, Store
from steno.store.locate import default_address, read_address
from steno.tools import Access, Toolbox, Workspace

_Read: TypeAlias = Callable[[Opened, Conversation | None], Awaitable[Said]]
_ANY_SERVER: Final = Outside()


class Harness(NamedTuple):
    """An agent that is ready to run, and what else there is to know."""

    agent: Agent
    store: Store
    model_selection: Found
    """The model, and how it was found."""
    target: Target
    """What is asked of the model, and what it can."""
    tools: tuple[Tool, ...]
    prompt: Said
    """What is to be said first."""
    notes: tuple[str, ...]
    """What a person should know before it begins."""

    @property
    def model(self) -> str:
        """What the record calls the model."""
        return self.model_selection.name


class Equipment(NamedTuple):
    """What it takes to work in a folder, whatever the conversation."""

    settings: Settings
    model_selection: Found
    provider: Provider
    builtin_tools: tuple[Tool, ...]
    """The tools that are always there."""
    input_setup: Opened
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
    def target(self) -> Target:
        """What is asked of the model, and what it can."""
        return target_for(self.model_selection, self.settings)

    @property
    def supports_tools(self) -> bool:
        """Whether the model calls any, as far as is known."""
        return self.target.tools is not False

    def with_mcp_tools(self, foreign: McpTools) -> Equipment:
        """Return the same with what servers have brought by now."""
        return self._replace(input_setup=self.input_setup._replace(mcp_tools=foreign))

    def agent_for(
        self, conversation: Conversation, *, runner: Runs, gate: Decides | None = None
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
            count=counter_for(target.model),
            limits=self.settings.limits,
            telemetry=self.telemetry,
            price_of=cache(price_of),
            actor=user_name(),
        )


@asynccontextmanager
async def compose(
    loaded: Loaded,
    start: Start,
    *,
    keeps: bool = True,
    mode: str | None = None,
    approver: Approver | None = None,
    read: _Read,
    outside: Outside = _ANY_SERVER,
    say: Callable[[str], object] = lambda _: None,
    notify: Callable[[str], object] = lambda _: None,
) -> AsyncGenerator[Harness]:
    """Make an agent for a session; everything is closed behind it.

    All the rest is found before a session is begun: what fails here leaves nothing behind. Nor
    does a prompt that cannot be `read`, or of which it is known that the model cannot.
    """
    settings = loaded.settings
    async with AsyncExitStack() as stack:
        store = None if start.is_new else stack.enter_context(store_for(settings, is_new=False))
        going_on = None if store is None else open_session(store, start)
        found = await choose_model(loaded, "" if going_on is None else going_on.model or "")
        equipment = await stack.enter_async_context(
            equip(loaded, found, start.folder, approver, outside, say=say, notify=notify)
        )
        told, notes = system_prompt(loaded, start.folder)
        said = await read(equipment.input_setup, going_on)
        check_room(equipment, said.text if going_on is not None else told + said.text)
        if store is None:
            store = stack.enter_context(store_for(settings) if keeps else MemoryStore())
        conversation = going_on  # which is false where it is empty
        if conversation is None:
            conversation = new_session(store, start.folder, told, settings.mode)
        go_on(conversation, start, mode)
        agent = equipment.agent_for(conversation, runner=Runner(store))
        notes += (*equipment.notes, *said.notes, *notes_on(equipment, start.folder))
        if going_on is not None:
            notes += tuple(notes_on_session(store, going_on, start.folder))
        yield Harness(agent, store, found, equipment.target, equipment.tools, said, notes)


@asynccontextmanager
async def equip(
    loaded: Loaded,
    found: Found,
    folder: Path,
    approver: Approver | None,
    outside: Outside = _ANY_SERVER,
    *,
    say: Callable[[str], object] = lambda _: None,
    notify: Callable[[str], object] = lambda _: None,
) -> AsyncGenerator[Equipment]:
    """Make provider, tools and gate for work in a folder; everything is closed behind it.

    Servers are asked for their tools and waited for; `say` is told so, and `notify` what happens
    to them later on.
    """
    set_up = set_up_servers(loaded, folder, outside, notify=notify)
    servers = set_up.servers
    async with servers, equip_beside(loaded, found, folder, approver, set_up) as bare:
        if not servers.names or not bare.supports_tools:
            yield bare
            return
        say(f"starting {', '.join(servers.names)}")
        yield bare.with_mcp_tools(await tools_of(servers, fit=bare.input_setup.inputs.prepare_image))


@asynccontextmanager
async def equip_beside(
    loaded: Loaded, found: Found, folder: Path, approver: Approver | None, set_up: SetUp
) -> AsyncGenerator[Equipment]:
    """Make provider, tools and gate beside servers that are not asked here, and outlive it all."""
    settings = loaded.settings
    async with AsyncExitStack() as stack:
        telemetry = _telemetry(settings)
        provider = found.open()
        stack.push_async_callback(provider.close)
        workspace = Workspace([folder, *settings.add_dirs])
        things = opened(loaded, found, workspace, set_up)
        toolbox = await stack.enter_async_context(
            Toolbox(
                workspace,
                fit=things.inputs.prepare_image,
                sandbox=settings.sandbox,
                access=Access(network=settings.network, environment=settings.env),
            )
        )
        grants, notes = _grants(folder)
        permissions = Permissions(role=settings.role, allow=settings.allow, deny=settings.deny)
        gate = Gate(permissions, approver, grants=grants, seal=OwnSeal())
        yield Equipment(settings, found, provider, toolbox.tools, things, gate, telemetry, notes)


def target_for(found: Found, settings: Settings) -> Target:
    """Return what is asked of a model; what the user says of it counts more than its server."""
    said = unheard_of(found.model) if found.known is None else found.known
    return target_of(found.name, found.vendor, said, settings)


def user_name() -> str | None:
    """Return who works here, for the record; None where the system does not say."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return None


def store_for(settings: Settings, *, is_new: bool = True) -> Store:
    """Open the store; where a session is to go on and there is no store, nothing is in it."""
    address = default_address() if settings.store is None else read_address(settings.store)
    if not is_new and not address.exists:
        return MemoryStore()
    try:
        return quietly_opened(address)
    except Unavailable as exc:
        raise Unavailable(f"{exc}; --no-session does without a store") from exc


def check_room(equipment: Equipment, said: str) -> None:
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


def system_prompt(loaded: Loaded, folder: Path) -> tuple[str, tuple[str, ...]]:
    """Return what a model reads first in a folder, and what a person should know of it."""
    settings = loaded.settings
    own = None if loaded.user_file is None else loaded.user_file.parent
    instructions = read_instructions(folder, loaded.project, own)
    prompt = build_system_prompt(
        Surroundings.current(folder, loaded.project, add_dirs=settings.add_dirs),
        instructions.files,
        replacement=settings.system_prompt,
        appended=settings.append_system_prompt,
    )
    return prompt, instructions.notes


def _grants(folder: Path) -> tuple[GrantsFile | None, tuple[str, ...]]:
    """Return what was allowed for good, and what to say where that cannot be read: then nothing is."""
    if config_folder(os.environ) is None:
        return None, ()
    grants = GrantsFile(folder)
    try:
        grants.rules()
    except StenoError as exc:
        return None, (str(exc),)
    return grants, ()


def _telemetry(settings: Settings) -> Telemetry:
    if not settings.telemetry:
        return NO_TELEMETRY
    try:
        module = import_module("steno.agent.opentelemetry")  # an extra of the package
    except ImportError as exc:
        raise Unavailable(f"telemetry: {exc}") from exc
    return cast("Telemetry", module.OpenTelemetry(capture_content=settings.capture_content))


# -- what a person should know -----------------------------------------------------------------


def notes_on(equipment: Equipment, folder: Path) -> Iterator[str]:
    """Tell of the model and of the folder what may come as a surprise."""
    settings, found = equipment.settings, equipment.model_selection
    if found.searched:
        yield f"no model was named; {found.name} is there ({found.reason}){_in_earnest(found)}"
    if settings.max_cost is not None and price_of(found.name) is None:
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


def _in_earnest(found: Found) -> str:
    """Say what to do for real work, where what was found is no match for it."""
    if found.vendor not in (EMBEDDED, OFFLINE):
        return ""
    return "; for real work set a key such as ANTHROPIC_API_KEY, or start Ollama: steno models"


def notes_on_session(store: Store, conversation: Conversation, folder: Path) -> Iterator[str]:
    """Tell if a session that goes on was begun in another folder."""
    begun_in = folder_of(store.header(conversation.id))
    if begun_in is not None and begun_in != str(folder):
        yield f"session: it was begun in {begun_in}, and goes on in {folder}"
