"""All servers of a session together."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from steno.errors import ServerFailed
from steno.inputs.mcp.connection import McpServers
from steno.inputs.mcp.prompts import list_mcp_prompts
from steno.inputs.mcp.protocol import McpServer
from steno.inputs.mcp.server_spec import McpServerSpec
from steno.inputs.mcp.tools import list_mcp_tools
from steno.ports import Capability
from tests.inputs.mcp.connection_setup import children, plain_spec
from tests.inputs.mcp.real_servers import own_spec, time_spec
from tests.raised_errors import raises_code
from tests.transport.http_server import run

BROKEN = McpServerSpec(name="broken", command="x", problem="needs the variable TOKEN")
OFF = McpServerSpec(name="off", command="x", disabled=True)


def test_only_usable_servers_can_be_used(tmp_path: Path) -> None:
    servers = McpServers([time_spec(), BROKEN, OFF], folder=tmp_path)
    assert servers.names == ("time",)
    assert [*servers] == [servers.get("time")]
    assert list(servers.specs) == ["time", "broken", "off"]
    assert servers.get("time") is servers.get("time")
    with raises_code(ServerFailed, "server_misconfigured", place="mcp broken"):
        servers.get("broken")
    with raises_code(ServerFailed, "server_disabled", place="mcp off"):
        servers.get("off")
    with raises_code(ServerFailed, "server_not_found", place="mcp") as refused:
        servers.get("other")
    assert refused.value.message.endswith(": time")


def test_later_of_two_specs_of_one_name_counts(tmp_path: Path) -> None:
    servers = McpServers([time_spec("a"), own_spec(name="a")], folder=tmp_path)
    assert servers.get("a").spec == own_spec(name="a")
    server: McpServer = servers.get("a")
    assert server.name == "a"


def test_tools_and_prompts_of_all_servers_are_found_and_what_only_reads_is_known(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        specs = [own_spec(reads=("add", "extra_*")), plain_spec()]
        async with McpServers(specs, folder=tmp_path) as servers:
            found = await list_mcp_tools(servers)
            readers = [tool for tool in found.tools if tool.capability is Capability.READ]
            assert {tool.server for tool in found.tools} == {"own", "plain"}
            assert len(readers) == 40
            assert (await list_mcp_prompts(servers)).notices == ()

    run(main())


def test_servers_end_together(tmp_path: Path) -> None:
    async def main() -> None:
        others = children()
        async with McpServers([own_spec(), plain_spec()], folder=tmp_path) as servers:
            assert children() == others
            await asyncio.gather(*[servers.get(name).tools() for name in servers.names])
            assert len(children() - others) == 2
        assert children() == others

    run(main())


WITHOUT_SDK = """
import asyncio, sys
from pathlib import Path
from steno.inputs.mcp.protocol import McpServer
from steno.inputs.mcp.connection import McpServers
from steno.inputs.mcp.server_spec import McpServerSpec
print([name for name in sys.modules if name.split('.')[0] in ('mcp', 'mcp_types', 'anyio')])
sys.modules['mcp'] = None
servers = McpServers([McpServerSpec(name='a', command='b')], folder=Path())
try:
    asyncio.run(servers.get('a').tools())
except Exception as exc:
    print(type(exc).__name__, exc.code, exc)
"""


def test_sdk_is_loaded_when_it_is_needed_and_named_if_it_is_missing() -> None:
    ran = subprocess.run([sys.executable, "-c", WITHOUT_SDK], capture_output=True, text=True)
    loaded, failure = ran.stdout.splitlines()
    assert loaded == "[]"
    assert failure.startswith("ServerFailed missing_extra ")
    assert "steno-agent[mcp]" in failure
