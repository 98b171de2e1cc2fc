"""Put everything together: settings, a store, a model, tools and who may use them.

This is the only place that knows who is who.
"""

from __future__ import annotations

import getpass
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from steno.agent import Agent, Approver, Gate, Permissions, Runner, Target
from steno.cli.configuration import Loaded
from steno.cli.grants import GrantsFile
from steno.cli.instructions import read_instructions
from steno.cli.place import quietly_opened
from steno.cli.prompt import Surroundings, build_system_prompt
from steno.cli.session import Start, new_session, open_session
from steno.cli.settings import ModelSettings, Settings
from steno.entry import Mode
from steno.providers.finding import Found, find_model
from steno.store import MemoryStore, Store
from steno.store.locate import default_address, read_address
from steno.tools import Access, Toolbox, Workspace


class Harness(NamedTuple):
    """An agent that is ready to run, and what else there is to know."""

    agent: Agent
    store: Store
    found: Found
    """The model, and how it was found."""
    notes: tuple[str, ...]
    """What a person should know before it begins."""

    @property
    def model(self) -> str:
        """What the record calls the model."""
        return self.found.name


@asynccontextmanager
async def compose(
    loaded: Loaded,
    start: Start,
    *,
    keeps: bool = True,
    mode: str | None = None,
    approver: Approver | None = None,
) -> AsyncGenerator[Harness]:
    """Make an agent for a session; everything is closed behind it.

    A model is found before a session is begun: what fails here leaves nothing behind.
    """
    settings = loaded.settings
    async with AsyncExitStack() as stack:
        store = stack.enter_context(_store(settings, keeps=keeps))
        going_on = None if start.is_new else open_session(store, start)
        recorded = None if going_on is None else going_on.model
        found = await find_model(
            _wanted(loaded) or recorded or "",
            configured=settings.model or "",
            vendors=settings.providers,
        )
        provider = found.open()
        stack.push_async_callback(provider.close)
        toolbox = await stack.enter_async_context(
            Toolbox(
                Workspace([start.folder, *settings.add_dirs]),
                sandbox=settings.sandbox,
                access=Access(network=settings.network, environment=settings.env),
            )
        )
        prompt, notes = _system_prompt(loaded, start.folder)
        conversation = going_on or new_session(store, start.folder, prompt, settings.mode)
        if mode is not None and conversation.mode is not Mode(mode):
            conversation.change_mode(mode)
        agent = Agent(
            provider,
            conversation,
            tools=toolbox.tools,
            gate=_gate(settings, approver, start.folder),
            runner=Runner(store),
            model=found.name,
            target=target_for(found, settings),
            limits=settings.limits,
            actor=user_name(),
        )
        yield Harness(agent, store, found, notes)


def target_for(found: Found, settings: Settings) -> Target:
    """Return what is asked of a model; what the user says of it counts more than its server."""
    own = settings.models.get(found.name, ModelSettings())
    vendor = settings.providers.get(found.vendor)
    contexts = [own.context_tokens]
    visions, tools = [own.vision], [own.tools]
    for row in (found.known, vendor):
        if row is not None:
            contexts.append(row.context_tokens)
            visions.append(row.capabilities.vision)
            tools.append(row.capabilities.tools)
    return Target(
        model=found.known.id if found.known is not None else found.model,
        context_tokens=next((tokens for tokens in contexts if tokens is not None), None),
        max_tokens=settings.max_tokens,
        vision=next((said for said in visions if said is not None), None),
        tools=next((said for said in tools if said is not None), None),
        temperature=settings.temperature,
    )


def user_name() -> str | None:
    """Return who works here, for the record; None where the system does not say."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return None


def _store(settings: Settings, *, keeps: bool) -> Store:
    if not keeps:
        return MemoryStore()
    address = default_address() if settings.store is None else read_address(settings.store)
    return quietly_opened(address)


def _wanted(loaded: Loaded) -> str:
    """Return the model that the command line or the environment names: it counts most."""
    origins = loaded.origins.get("model", ())
    is_wanted = any(origin in ("--model", "STENO_MODEL") for origin in origins)
    return (loaded.settings.model or "") if is_wanted else ""


def _system_prompt(loaded: Loaded, folder: Path) -> tuple[str, tuple[str, ...]]:
    settings = loaded.settings
    own = None if loaded.user_file is None else loaded.user_file.parent
    instructions = read_instructions(folder, loaded.project, own)
    prompt = build_system_prompt(
        Surroundings.of(folder, loaded.project, add_dirs=settings.add_dirs),
        instructions.files,
        replacement=settings.system_prompt,
        appended=settings.append_system_prompt,
    )
    return prompt, instructions.notes


def _gate(settings: Settings, approver: Approver | None, folder: Path) -> Gate:
    permissions = Permissions(role=settings.role, allow=settings.allow, deny=settings.deny)
    return Gate(permissions, approver, grants=GrantsFile(folder))
