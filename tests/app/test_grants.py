"""Grants of a session can be listed and revoked one by one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from steno.agent import EntryRecorded, PromptInput
from steno.app.compose import open_grants
from steno.app.permissions import GrantsFile
from steno.errors import Conflict, InvalidValue, Missing, Unavailable
from steno.log.queries import searchable_text
from steno.messages.event import TextDelta
from steno.ports import GrantScope
from steno.records.entry import GrantRevoked, Mode
from steno.store import open_store
from tests.app.project_setup import make_project, scripted_model
from tests.app.scripted_vendor import Call
from tests.app.session_setup import SessionUser, open_user_session, run
from tests.cli.reference_setup import check_last_log
from tests.raised_errors import raises_code

pytestmark = pytest.mark.requirement("S4-15", "S2-18")
RULE = "write(out/**)"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = make_project(tmp_path, monkeypatch)
    (folder / "out").mkdir()
    return folder


def write(id: str) -> list[Call]:
    return [Call("write", {"path": f"out/{id}.txt", "content": "x\n"}, id)]


async def permissions(user: SessionUser, argument: str = "") -> str:
    """Return the text of the report without Markdown's escapes."""
    return (await user.session.run_command("permissions", argument)).body.replace("\\", "")


def revocations(user: SessionUser) -> list[GrantRevoked]:
    payloads = [one.entry.payload for one in user.events_of(EntryRecorded)]
    return [one for one in payloads if isinstance(one, GrantRevoked)]


async def grant(user: SessionUser, id: str) -> None:
    """Let the model write a file, and allow that for the session."""
    before = len(user.events_of(EntryRecorded))
    await user.session.send(PromptInput("Write."))
    await user.asked(id)
    user.allow(id, scope=GrantScope.SESSION)
    await user.until(lambda: not user.session.is_running)
    assert len(user.events_of(EntryRecorded)) > before


def test_a_grant_is_listed_with_a_number_and_taken_back_by_it_and_the_next_call_asks(
    project: Path, home: Path
) -> None:
    async def main() -> None:
        async with open_user_session(project) as user:
            await grant(user, "c1")
            listed = await permissions(user)
            assert f"\n\n1. `{RULE}`" in listed
            assert "`/permissions revoke N`" in listed
            with pytest.raises(Missing) as caught:
                await permissions(user, "revoke 2")
            assert caught.value.code == "no_such_number"
            text = await permissions(user, "revoke 1")
            assert text.endswith(f"this session: {RULE}")
            assert len(revocations(user)) == 1
            assert RULE not in await permissions(user)
            await grant(user, "c2")

    async def go_on() -> None:
        async with open_user_session(project, continues=True) as user:
            assert await permissions(user, "revoke 1")
        async with open_user_session(project, continues=True) as user:
            assert RULE not in await permissions(user)
            await grant(user, "c3")

    with scripted_model(home, write("c1"), "Done.", write("c2"), "Done.", write("c3"), "Done."):
        run(main())
        run(go_on())
    check_last_log()


def test_a_rule_is_taken_back_from_wherever_it_is_allowed_or_from_the_session_alone(
    project: Path, home: Path
) -> None:
    async def main() -> None:
        async with open_user_session(project) as user:
            await grant(user, "c1")
            GrantsFile(project).add(RULE, GrantScope.PROJECT)
            await user.session.run_command("fork", "aside")
            with pytest.raises(Missing) as caught:
                await permissions(user, f"revoke {RULE} user")
            assert caught.value.code == "rule_in_session"
            assert caught.value.message.endswith("/permissions revoke 1")
            text = await permissions(user, f"revoke {RULE} session")
            assert text.endswith(f"this session: {RULE}")
            assert GrantsFile(project).rules() == (RULE,)
            user.session.branches.switch("main")
            text = await permissions(user, f"revoke {RULE}")
            assert text.endswith(f"this project: {RULE}")
            assert GrantsFile(project).rules() == ()
            await grant(user, "c2")
            GrantsFile(project).add(RULE, GrantScope.PROJECT)
            text = await permissions(user, f"revoke {RULE}")
            assert f"this session: {RULE}" in text
            assert text.endswith(f"this project: {RULE}")
            assert GrantsFile(project).rules() == ()

    with scripted_model(home, write("c1"), "Done.", write("c2"), "Done."):
        run(main())


def entry_of(user: SessionUser, text: str) -> str:
    """Return the entry of the last user message with this text."""
    entries = [one.entry for one in user.events_of(EntryRecorded) if one.entry.message is not None]
    return next(entry.id for entry in reversed(entries) if searchable_text(entry) == text)


def replace_prompt(user: SessionUser) -> None:
    user.session.branches.fork_before(entry_of(user, "Thanks."))


def fork_there(user: SessionUser) -> None:
    user.session.branches.fork(at=entry_of(user, "Thanks."))


@pytest.mark.parametrize("leave", [replace_prompt, fork_there])
def test_a_grant_that_was_taken_back_is_so_on_branches_that_begin_before(
    project: Path, home: Path, leave: Callable[[SessionUser], None]
) -> None:
    async def main() -> None:
        async with open_user_session(project) as user:
            await grant(user, "c1")
            await user.send("Thanks.")
            assert await permissions(user, "revoke 1")
            leave(user)
            assert RULE not in await permissions(user)
            await grant(user, "c2")
            user.session.branches.switch("main")
            assert RULE not in await permissions(user)
            text = await permissions(user, f"revoke {RULE}")
            assert text.endswith(f"this session: {RULE}")
            user.session.branches.switch("fork-1")
            assert RULE not in await permissions(user)
            with pytest.raises(Missing) as caught:
                await permissions(user, f"revoke {RULE}")
            assert caught.value.code == "rule_not_allowed"

    with scripted_model(home, write("c1"), "Done.", "Yes.", write("c2"), "Done."):
        run(main())
    check_last_log()


def test_a_grant_cannot_be_revoked_after_another_program_wrote(project: Path, home: Path) -> None:
    async def main() -> None:
        async with open_user_session(project) as user:
            await grant(user, "c1")
            with open_store() as store:
                [header] = store.headers()
                store.open(header.id).change_mode(Mode.PLAN)
            with pytest.raises(Conflict) as caught:
                await permissions(user, "revoke 1")
            assert caught.value.code == "session_changed"

    with scripted_model(home, write("c1"), "Done."):
        run(main())


def test_a_revoked_grant_stays_revoked_after_a_retry(project: Path, home: Path) -> None:
    gate = threading.Event()

    async def main() -> None:
        async with open_user_session(project) as user:
            await grant(user, "c1")
            before = len(user.events_of(TextDelta))
            await user.session.send(PromptInput("Tell me."))
            await user.until(lambda: len(user.events_of(TextDelta)) > before)
            user.session.interrupt()
            await user.until(lambda: not user.session.is_running)
            gate.set()
            await permissions(user, "revoke 1")
            user.session.change_mode(Mode.PLAN)
            await user.session.run_command("retry")
            await user.until(lambda: not user.session.is_running)
            assert user.texts[-2:] == ["Tell me.", "The end."]
            assert user.session.status.mode is Mode.PLAN
            assert RULE not in await permissions(user)

    with scripted_model(home, write("c1"), "Done.", ["Once upon", gate, " a time"], "The end."):
        run(main())
    check_last_log()


# -- files of older versions -----------------------------------------------------------------------

OLD_FILE = '[user]\nallow = ["bash(git *)", "write(out/**)"]\n'


@pytest.mark.parametrize("change", ["add", "revoke"])
def test_rules_that_need_a_confirmation_are_reported_after_any_other_change(
    tmp_path: Path, change: str
) -> None:
    file = tmp_path / "grants.toml"
    file.write_text(OLD_FILE)
    grants = GrantsFile(tmp_path, file=file)
    if change == "add":
        grants.add("read", GrantScope.USER)
    else:
        grants.revoke("write(out/**)", GrantScope.USER)
    assert "bash(git *)" not in grants.rules()
    assert grants.migrate() == ("bash(git *)",)
    assert grants.migrate() == ()


def test_valid_grants_count_if_the_file_of_an_older_version_cannot_be_rewritten(
    project: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: GrantsFile) -> tuple[str, ...]:
        raise Unavailable("read-only", code="not_writable", place="grants")

    GrantsFile(project).add(RULE, GrantScope.USER)
    monkeypatch.setattr(GrantsFile, "migrate", refuse)
    grants, notices = open_grants(project)
    assert grants is not None
    assert RULE in grants.rules()
    assert [notice.code for notice in notices] == ["not_writable"]


def test_a_rule_about_a_domain_is_checked_before_it_is_stored(tmp_path: Path) -> None:
    grants = GrantsFile(tmp_path, file=tmp_path / "grants.toml")
    with raises_code(InvalidValue, "domain_wildcard_misplaced"):
        grants.add("network(pyp*)", GrantScope.USER)
    assert grants.rules() == ()
