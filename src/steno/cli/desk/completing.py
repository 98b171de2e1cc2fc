"""What may be meant by what was typed so far: `@...` a file, folder or resource, `/...` a prompt.

Servers are asked once in a while and not waited for: one that is slow is left out until its
answer is there. Nothing here raises because of a server or a file.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from typing import Final

from steno.cli.desk.fitting import MOST, fitting_files
from steno.cli.desk.remembered import Remembered
from steno.cli.desk.scene import Scene
from steno.cli.offers import usage_of
from steno.errors import ServerFailed
from steno.inputs.mcp.connection import Connection
from steno.inputs.mcp.prompts import SlashPrompt, prompts_of
from steno.inputs.mcp.said import ListedResource
from steno.printable import cut, on_one_line
from steno.tui.desk import Candidate

_HOLDS_S: Final = 60.0
_PATIENCE_S: Final = 1.0
_LONGEST: Final = 80
_TYPEABLE: Final = re.compile(r"""[A-Za-z][A-Za-z0-9+.-]*://[^\s`"'<>|@]*[\w/=&%+~#-]""")
"""An address that a prompt can name, with nothing at its end that looks like a sentence's."""


async def complete(scene: Scene, typed: str) -> Sequence[Candidate]:
    """Return what may be meant, the likeliest first; nothing for what is neither."""
    servers = tuple(scene.environment.input_setup.servers)
    sign, rest = typed[:1], typed[1:]
    if sign == "@":
        resources, files = await asyncio.gather(
            _resources(servers, rest), fitting_files(scene.environment.input_setup.workspace, rest)
        )
        return [*resources, *files][:MOST]
    if sign == "/":
        return (await _prompts(servers, rest))[:MOST]
    return ()


# -- resources -------------------------------------------------------------------------------


async def _listed(server: Connection) -> tuple[ListedResource, ...]:
    try:
        return await server.resources()
    except ServerFailed:
        return ()


_RESOURCES: Final = Remembered(_listed, holds_s=_HOLDS_S, patience_s=_PATIENCE_S)


async def _resources(servers: Sequence[Connection], typed: str) -> list[Candidate]:
    """Return the resources of the servers whose names begin as was typed, up to a colon."""
    name, colon, _ = typed.partition(":")
    meant = [one for one in servers if (one.name == name if colon else one.name.startswith(name))]
    if not typed or not meant:
        return []
    lists = await asyncio.gather(*map(_RESOURCES.get, meant))
    return [
        candidate
        for server, listed in zip(meant, lists, strict=True)
        for resource in listed
        if (candidate := _resource(server.name, resource)) is not None
        and candidate.text[1:].casefold().startswith(typed.casefold())
    ]


def _resource(server: str, resource: ListedResource) -> Candidate | None:
    """Return a resource as it is typed; of a template what stands before its first brace."""
    uri = resource.uri.partition("{")[0] if resource.is_template else resource.uri
    if not uri.isprintable() or (not resource.is_template and not _TYPEABLE.fullmatch(uri)):
        return None
    about = cut(on_one_line(resource.name or resource.description), _LONGEST)
    return Candidate(f"@{server}:{uri}", about, expects_more=resource.is_template)


# -- prompts ---------------------------------------------------------------------------------


async def _offered(server: Connection) -> tuple[SlashPrompt, ...]:
    return (await prompts_of([server])).prompts  # one that fails has none


_PROMPTS: Final = Remembered(_offered, holds_s=_HOLDS_S, patience_s=_PATIENCE_S)


async def _prompts(servers: Iterable[Connection], typed: str) -> list[Candidate]:
    """Return the prompts that are called so, and then those that have it in their names."""
    if " " in typed:
        return []
    lists = await asyncio.gather(*map(_PROMPTS.get, servers))
    wanted = typed.casefold()
    found = [(prompt.command[1:].casefold(), prompt) for prompts in lists for prompt in prompts]
    first = [prompt for name, prompt in found if name.startswith(wanted)]
    second = [p for name, p in found if wanted in name and not name.startswith(wanted)]
    return [_prompt(prompt) for prompt in (*first, *second)]


def _prompt(prompt: SlashPrompt) -> Candidate:
    needs = usage_of(prompt).removeprefix(prompt.command).strip()
    about = cut(" · ".join(filter(None, [needs, on_one_line(prompt.description)])), _LONGEST)
    return Candidate(prompt.command, about, expects_more=bool(prompt.arguments))
