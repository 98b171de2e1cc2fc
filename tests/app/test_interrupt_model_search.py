"""Interrupting the search for a model: the current one stays."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path

import pytest

from steno.agent import EndReason
from steno.errors import StenoError
from tests.app.project_setup import make_project, scripted_model
from tests.app.session_setup import SessionUser, open_user_session, run

pytestmark = pytest.mark.requirement("S4-15")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_project(tmp_path, monkeypatch)


@pytest.fixture
def mute() -> Generator[socket.socket]:
    """Accept requests for models, and never answer."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


def row(server: socket.socket) -> str:
    port = server.getsockname()[1]
    return f'[providers.mute]\nlike = "vllm"\nbase_url = "http://127.0.0.1:{port}/v1"\n'


async def name_it(user: SessionUser) -> None:
    await user.session.change_model("mute")


async def type_it(user: SessionUser) -> None:
    await user.session.run_command("model", "mute")


async def list_all(user: SessionUser) -> None:
    await user.session.list_models()


@pytest.mark.parametrize("search", [name_it, type_it, list_all])
def test_an_interrupted_search_leaves_the_model_and_the_session_unchanged(
    project: Path, home: Path, mute: socket.socket, search: Callable[[SessionUser], Awaitable[None]]
) -> None:
    async def main() -> None:
        async with open_user_session(project) as user:
            searching = asyncio.ensure_future(search(user))
            asked, _ = await asyncio.get_running_loop().sock_accept(mute)
            with asked:
                user.session.interrupt()
                with pytest.raises(StenoError) as caught:
                    await searching
                assert caught.value.code == "interrupted"
                assert "lab/tester" in caught.value.message
            assert user.session.status.model == "lab/tester"
            assert (await user.send("Hello?")).result.end_reason is EndReason.DONE

    with scripted_model(home, "Hello.", settings=row(mute)):
        run(main())
