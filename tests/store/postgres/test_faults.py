"""PostgresStore with other writers, broken connections and servers that end."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread
from time import monotonic

import psycopg
import pytest

from steno import ChatMessage
from steno.errors import Conflict, InvalidValue, StenoError, Unavailable
from steno.messages.message import UserMessage
from steno.records.entry import Entry, Redacted
from steno.records.stored_record import MAIN_BRANCH, Header
from steno.store.postgres.connections import UnconfirmedWrite
from steno.store.postgres.store import PostgresStore
from tests.store.postgres.postgres_proxy import Loss, Proxy
from tests.store.postgres.postgres_server import Server, name_in

PATIENCE_S = 60
DIGEST = "0" * 64


@pytest.fixture
def store(postgres_address: str) -> Iterator[PostgresStore]:
    with PostgresStore(postgres_address) as opened:
        opened.add_session(Header(id="s"))
        yield opened


@pytest.fixture
def proxy(postgres_server: Server) -> Iterator[Proxy]:
    with Proxy(postgres_server.socket) as carrying:
        yield carrying


@pytest.fixture(scope="module")
def own_server() -> Iterator[Server]:
    """A server that tests may stop."""
    with Server() as server:
        yield server


def entry(id: str, parent: str | None = None) -> Entry:
    message = ChatMessage.user("hello")
    assert isinstance(message, UserMessage)
    return Entry(id=id, parent=parent, payload=message)


def add(store: PostgresStore, id: str, expected: str | None = None, session: str = "s") -> None:
    store.append(session, entry(id, expected), branch=MAIN_BRANCH, digest=DIGEST, expected=expected)


def ids_in(store: PostgresStore, session: str = "s") -> list[str]:
    records = list(store.records(session))
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    return [record.entry.id for record in records if record.entry is not None]


def wait_until(is_so: Callable[[], object]) -> None:
    deadline = monotonic() + PATIENCE_S
    while not is_so():
        assert monotonic() < deadline, "it never came to that"


def backends(server: Server, address: str, condition: str = "true") -> list[int]:
    found = server.execute(
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'steno' "
        f"AND datname = current_database() AND {condition}",
        address,
    )
    return [pid for (pid,) in found]


def run(program: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


# -- several writers -------------------------------------------------------------------------


RACER = """
import sys
from steno import ChatMessage
from steno.errors import Conflict
from steno.store import open_store
_, address, name = sys.argv
with open_store(address) as store:
    talk = store.open("s")
    print("ready", flush=True)
    sys.stdin.readline()
    lost = 0
    for number in range(40):
        while True:
            try:
                talk.append(ChatMessage.user(f"{name} {number}"))
                break
            except Conflict:
                lost += 1
                talk.refresh()
"""


def test_two_processes_on_one_branch_lose_nothing(
    store: PostgresStore, postgres_address: str
) -> None:
    racers = [run(RACER, postgres_address, name) for name in "ab"]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        racer.communicate("go\n", timeout=PATIENCE_S)
        assert racer.returncode == 0
    texts = [str(message.text) for message in store.open("s").messages()]
    for name in "ab":
        assert [text for text in texts if text[0] == name] == [f"{name} {n}" for n in range(40)]
    assert len(ids_in(store)) == 80
    assert store.verify("s").is_intact


def test_of_many_threads_that_append_at_once_one_wins(
    store: PostgresStore, postgres_server: Server, postgres_address: str
) -> None:
    def attempt(number: int) -> bool:
        try:
            add(store, f"e{number}")
        except Conflict:
            return False
        return True

    with ThreadPoolExecutor(20) as threads:
        assert sum(threads.map(attempt, range(60))) == 1
    assert len(ids_in(store)) == 1
    assert len(backends(postgres_server, postgres_address)) <= 8


def test_sessions_do_not_wait_for_each_other(store: PostgresStore, postgres_address: str) -> None:
    store.add_session(Header(id="other"))
    with psycopg.connect(postgres_address) as holder:
        holder.execute("SELECT 1 FROM steno.session WHERE id = 's' FOR UPDATE")
        add(store, "e1", session="other")
        store.begin_branch("other", "side", "e1")
        store.add_session(Header(id="third"))
        store.remove("third")
        assert ids_in(store) == []  # nor do readers of the same
    assert ids_in(store, "other") == ["e1"]


def test_no_append_reads_more_than_its_own_rows(
    postgres_server: Server, postgres_address: str
) -> None:
    with PostgresStore(postgres_address) as store:
        store.new(map(ChatMessage.user, map(str, range(300))), id="s")
    read = """
        SELECT sum(seq_tup_read), sum(n_tup_ins) FILTER (WHERE relname = 'record')
        FROM pg_stat_all_tables WHERE schemaname = 'steno' AND relname <> 'version'
    """
    wait_until(lambda: postgres_server.execute(read, postgres_address)[0][1] == 300)
    assert postgres_server.execute(read, postgres_address)[0][0] == 0


@pytest.mark.parametrize("failures", [1, 3])
def test_deadlocks_and_failed_serializations_are_tried_again(
    store: PostgresStore, postgres_server: Server, postgres_address: str, failures: int
) -> None:
    refuse(postgres_server, postgres_address, "40P01", times=failures)
    add(store, "e1")
    assert ids_in(store) == ["e1"]


def test_a_failure_after_all_retries_is_reported_and_nothing_is_written(
    store: PostgresStore, postgres_server: Server, postgres_address: str
) -> None:
    refuse(postgres_server, postgres_address, "40001", times=1000)
    with pytest.raises(Unavailable) as caught:
        add(store, "e1")
    assert caught.value.code == "server_refused"
    assert getattr(caught.value.__cause__, "sqlstate", None) == "40001"
    assert ids_in(store) == []
    assert store.heads("s") == {}


def refuse(server: Server, address: str, state: str, *, times: int = 1000) -> None:
    """Make the server refuse records a number of times, counted by a sequence.

    A sequence keeps its value when a transaction is rolled back.
    """
    server.execute(
        f"""
        CREATE SEQUENCE refusals;
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF nextval('public.refusals') <= {times} THEN
                RAISE EXCEPTION 'refused' USING ERRCODE = '{state}';
            END IF;
            RETURN NEW;
        END $$;
        CREATE TRIGGER refuse BEFORE INSERT ON steno.record FOR EACH ROW EXECUTE FUNCTION refuse();
        """,
        address,
    )


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ("53100", "server_full"),
        ("53200", "server_full"),
        ("57014", "server_stopped"),
        ("55P03", "locked"),
        ("25006", "read_only"),
        ("42501", "permission_denied"),
        ("XX000", "server_refused"),
    ],
)
def test_a_refused_write_is_explained_and_not_stored(
    store: PostgresStore, postgres_server: Server, postgres_address: str, state: str, code: str
) -> None:
    refuse(postgres_server, postgres_address, state)
    with pytest.raises(Unavailable) as refused:
        add(store, "e1")
    assert refused.value.code == code
    assert isinstance(refused.value.__cause__, psycopg.Error)
    assert ids_in(store) == []
    with pytest.raises(Unavailable) as refused:
        store.begin_branch("s", "side", None)
    assert refused.value.code == code
    assert store.heads("s") == {}


@pytest.mark.parametrize("isolation", ["serializable", "repeatable read"])
def test_the_settings_of_a_database_do_not_change_the_meaning(
    postgres_server: Server, postgres_address: str, isolation: str
) -> None:
    name = name_in(postgres_address)
    for setting in (f"default_transaction_isolation = '{isolation}'", "synchronous_commit = off"):
        postgres_server.execute(f"ALTER DATABASE {name} SET {setting}")
    with PostgresStore(postgres_address) as store:
        store.add_session(Header(id="s"))
        postgres_server.execute(
            """
            CREATE FUNCTION check_settings() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                ASSERT current_setting('synchronous_commit') = 'on';
                ASSERT current_setting('transaction_isolation') = 'read committed';
                ASSERT current_setting('idle_in_transaction_session_timeout') = '20s';
                ASSERT current_setting('lock_timeout') = '30s';
                RETURN NEW;
            END $$;
            CREATE TRIGGER check_settings BEFORE INSERT ON steno.record
            FOR EACH ROW EXECUTE FUNCTION check_settings();
            """,
            postgres_address,
        )
        add(store, "e1")
        assert ids_in(store) == ["e1"]


# -- creating the tables ---------------------------------------------------------------------


OPENER = """
import sys
from steno.store import open_store
print("ready", flush=True)
sys.stdin.readline()
with open_store(sys.argv[1]) as store:
    store.new(id=sys.argv[2])
"""


def test_processes_that_start_at_once_agree_on_the_tables(postgres_address: str) -> None:
    openers = [run(OPENER, postgres_address, str(number)) for number in range(4)]
    for opener in openers:
        assert opener.stdout is not None
        assert opener.stdout.readline() == "ready\n"
    for opener in openers:
        assert opener.stdin is not None
        opener.stdin.write("go\n")
        opener.stdin.flush()
    for opener in openers:
        opener.communicate(timeout=PATIENCE_S)
        assert opener.returncode == 0
    with PostgresStore(postgres_address) as store:
        assert {header.id for header in store.headers()} == {"0", "1", "2", "3"}


def test_threads_that_start_at_once_agree_on_the_tables(postgres_address: str) -> None:
    with ThreadPoolExecutor(12) as threads:
        for opened in threads.map(PostgresStore, [postgres_address] * 12):
            opened.close()


def test_a_user_who_may_not_create_tables_gets_permission_denied(
    postgres_server: Server, postgres_address: str
) -> None:
    postgres_server.execute("CREATE ROLE newcomer LOGIN")
    with pytest.raises(Unavailable) as caught:
        PostgresStore(postgres_address.replace("postgres@", "newcomer@"))
    assert caught.value.code == "permission_denied"
    assert postgres_server.execute("SELECT to_regnamespace('steno')", postgres_address) == [(None,)]


def test_a_user_with_read_permission_can_read(
    store: PostgresStore, postgres_server: Server, postgres_address: str
) -> None:
    add(store, "e1")
    postgres_server.execute(
        """
        CREATE ROLE reader LOGIN;
        GRANT USAGE ON SCHEMA steno TO reader;
        GRANT SELECT ON ALL TABLES IN SCHEMA steno TO reader;
        """,
        postgres_address,
    )
    with PostgresStore(postgres_address.replace("postgres@", "reader@")) as reading:
        assert ids_in(reading) == ["e1"]
        with pytest.raises(Unavailable) as caught:
            add(reading, "e2", "e1")
        assert caught.value.code == "permission_denied"


def test_a_redaction_whose_vacuum_fails_reports_old_versions(
    store: PostgresStore, postgres_server: Server, postgres_address: str
) -> None:
    add(store, "e1")
    postgres_server.execute(
        """
        CREATE ROLE writer LOGIN;
        GRANT USAGE ON SCHEMA steno TO writer;
        GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA steno TO writer;
        """,
        postgres_address,
    )
    with (
        PostgresStore(postgres_address.replace("postgres@", "writer@")) as writing,
        pytest.raises(Unavailable) as caught,
    ):
        writing.redact("s", "e1", actor="me", reason="secret")
    assert caught.value.code == "old_versions_remain"
    (first, _) = store.records("s")
    assert first.entry is not None
    assert isinstance(first.entry.payload, Redacted)


# -- connections that break ------------------------------------------------------------------


def terminate(server: Server, address: str, condition: str = "true") -> int:
    pids = backends(server, address, condition)
    for pid in pids:
        server.execute(f"SELECT pg_terminate_backend({pid}, 5000)")
    return len(pids)


def test_connections_that_the_server_ended_are_replaced(
    store: PostgresStore, postgres_server: Server, postgres_address: str
) -> None:
    operations: list[Callable[[], object]] = [
        lambda: add(store, "e1"),
        lambda: store.begin_branch("s", "side", "e1"),
        lambda: store.heads("s"),
        lambda: list(store.records("s")),
        lambda: list(store.read_back("s", "e1")),
        lambda: store.search("hello"),
        lambda: store.put_blob(b"data"),
        lambda: store.replace("s", next(store.records("s"))),
        lambda: store.add_session(Header(id="t")),
        lambda: store.remove("t"),
    ]
    for operation in operations:
        assert terminate(postgres_server, postgres_address) == 1
        operation()
    assert ids_in(store) == ["e1"]


def test_a_reader_continues_after_its_connection_was_ended(
    store: PostgresStore, postgres_server: Server, postgres_address: str
) -> None:
    store.new(map(ChatMessage.user, map(str, range(600))), id="t")
    reader = store.records("t")
    next(reader)
    assert terminate(postgres_server, postgres_address)
    assert len(list(reader)) == 599


def test_an_append_whose_backend_is_ended_in_the_middle_is_written_once(
    store: PostgresStore, postgres_server: Server, postgres_address: str
) -> None:
    with ThreadPoolExecutor(1) as threads:
        with psycopg.connect(postgres_address) as holder:
            holder.execute("SELECT 1 FROM steno.session FOR UPDATE")
            appended = threads.submit(add, store, "e1")
            waiting = "wait_event_type = 'Lock'"
            wait_until(lambda: backends(postgres_server, postgres_address, waiting))
            assert terminate(postgres_server, postgres_address, waiting) == 1
            wait_until(lambda: backends(postgres_server, postgres_address, waiting))
        appended.result(PATIENCE_S)
    assert ids_in(store) == ["e1"]


@pytest.mark.parametrize("loss", [Loss.UNSENT, Loss.UNANSWERED])
@pytest.mark.parametrize("word", [b"BEGIN", b"FOR UPDATE", b"INSERT INTO", b"COMMIT\0"])
def test_an_append_whose_connection_breaks_at_any_statement_is_written_once(
    store: PostgresStore, proxy: Proxy, postgres_address: str, word: bytes, loss: Loss
) -> None:
    with PostgresStore(proxy.address(postgres_address)) as far:
        add(far, "e1")
        proxy.lose(word, loss)
        add(far, "e2", "e1")
        assert proxy.was_lost.is_set()
        add(far, "e3", "e2")
    assert ids_in(store) == ["e1", "e2", "e3"]
    assert store.summary("s").entries == 3


def test_a_commit_that_arrives_late_is_waited_for(
    store: PostgresStore, proxy: Proxy, postgres_server: Server, postgres_address: str
) -> None:
    with PostgresStore(proxy.address(postgres_address)) as far, ThreadPoolExecutor(1) as threads:
        proxy.lose(b"COMMIT\0", Loss.LATE)
        appended = threads.submit(add, far, "e1")
        assert proxy.was_lost.wait(PATIENCE_S)
        waiting = "wait_event_type = 'Lock'"
        wait_until(lambda: backends(postgres_server, postgres_address, waiting))
        proxy.let_through.set()
        appended.result(PATIENCE_S)
    assert ids_in(store) == ["e1"]


def test_an_existing_entry_is_not_mistaken_for_a_lost_write(
    store: PostgresStore, proxy: Proxy, postgres_address: str
) -> None:
    with PostgresStore(proxy.address(postgres_address)) as far:
        add(far, "e1")
        proxy.lose(b"COMMIT\0", Loss.UNSENT)
        with pytest.raises(Conflict) as caught:
            add(far, "e1")
        assert caught.value.code == "branch_moved"
        with pytest.raises(Conflict) as caught:
            add(far, "e1", "e1")
        assert caught.value.code == "entry_exists"
    assert ids_in(store) == ["e1"]


@pytest.mark.parametrize("loss", [Loss.UNSENT, Loss.UNANSWERED])
def test_other_writes_whose_commit_is_lost_are_done_once(
    store: PostgresStore, proxy: Proxy, postgres_address: str, loss: Loss
) -> None:
    add(store, "e1")
    copied = list(store.records("s"))
    with PostgresStore(proxy.address(postgres_address)) as far:
        operations: list[Callable[[], object]] = [
            lambda: far.begin_branch("s", "side", "e1"),
            lambda: far.add_session(Header(id="t", title="T"), copied),
            lambda: far.replace("s", copied[0]),
            lambda: far.put_blob(b"data"),
            lambda: far.remove("t"),
        ]
        for operation in operations:
            proxy.was_lost.clear()
            proxy.lose(b"COMMIT\0", loss)
            operation()
            assert proxy.was_lost.is_set()
    assert store.heads("s") == {MAIN_BRANCH: "e1", "side": "e1"}
    assert [header.id for header in store.headers()] == ["s"]
    assert len(list(store.blobs())) == 1


def test_a_write_with_unknown_outcome_raises_unconfirmed_write(
    store: PostgresStore, proxy: Proxy, postgres_address: str
) -> None:
    with PostgresStore(proxy.address(postgres_address)) as far:
        proxy.lose(b"COMMIT\0", Loss.UNANSWERED, for_good=True)
        with pytest.raises(UnconfirmedWrite) as unconfirmed:
            add(far, "e1")
        assert unconfirmed.value.code == "server_unreachable"
        with pytest.raises(Unavailable) as caught:
            add(far, "e2", "e1")
        assert (type(caught.value), caught.value.code) == (Unavailable, "server_unreachable")
        proxy.recover()
        wait_until(lambda: far.heads("s") == {MAIN_BRANCH: "e1"})
        add(far, "e2", "e1")
    assert ids_in(store) == ["e1", "e2"]


def test_a_refusal_after_a_broken_connection_is_an_unconfirmed_write(
    store: PostgresStore, proxy: Proxy, postgres_server: Server, postgres_address: str
) -> None:
    refuse(postgres_server, postgres_address, "53100")
    with PostgresStore(proxy.address(postgres_address)) as far:
        proxy.lose(b"INSERT INTO", Loss.UNSENT)
        with pytest.raises(UnconfirmedWrite) as unconfirmed:
            add(far, "e1")
        assert unconfirmed.value.code == "server_full"
        with pytest.raises(Unavailable) as caught:
            add(far, "e1")
        assert (type(caught.value), caught.value.code) == (Unavailable, "server_full")
    assert ids_in(store) == []


# -- servers that end ------------------------------------------------------------------------


def test_a_server_that_stopped_is_reported_and_found_again_when_it_is_back(
    own_server: Server,
) -> None:
    with PostgresStore(own_server.new_database()) as store:
        store.add_session(Header(id="s"))
        add(store, "e1")
        own_server.stop()
        try:
            for operation in (lambda: add(store, "e2", "e1"), lambda: store.header("s")):
                with pytest.raises(Unavailable) as caught:
                    operation()
                assert caught.value.code == "server_unreachable"
            with pytest.raises(Unavailable) as caught:
                PostgresStore(own_server.address())
            assert caught.value.code == "server_unreachable"
        finally:
            own_server.start()
        add(store, "e2", "e1")
        assert ids_in(store) == ["e1", "e2"]


def test_a_server_that_restarts_in_the_middle_of_many_appends_loses_none(
    own_server: Server,
) -> None:
    with PostgresStore(own_server.new_database()) as store:
        conversation = store.new(id="s")
        begun, ended = Event(), Event()

        def restart() -> None:
            begun.wait(PATIENCE_S)
            own_server.stop()
            own_server.start()
            ended.set()

        restarting = Thread(target=restart)
        restarting.start()
        acknowledged: list[str] = []
        number = 0
        while not ended.is_set() or number < 20:
            try:
                acknowledged.append(conversation.append(ChatMessage.user(f"{number}")).id)
            except (Unavailable, Conflict):
                wait_until(lambda: refreshed(conversation.refresh))
            number += 1
            begun.set()
        restarting.join()
        kept = ids_in(store)
        assert [id for id in kept if id in set(acknowledged)] == acknowledged
        assert store.verify("s").is_intact


def refreshed(refresh: Callable[[], None]) -> bool:
    try:
        refresh()
    except Unavailable:
        return False
    return True


def test_a_server_that_does_not_respond_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host, port = silent.getsockname()
        with pytest.raises(Unavailable) as caught:
            PostgresStore(f"postgresql://me@{host}:{port}/db?connect_timeout=2")
        assert caught.value.code == "server_unreachable"


# -- clients that end ------------------------------------------------------------------------


WRITER = """
import sys
from steno import ChatMessage
from steno.store import open_store
with open_store(sys.argv[1]) as store:
    talk = store.open("s")
    while True:
        print(talk.append(ChatMessage.user("hello")).id, flush=True)
"""


def test_entries_that_were_acknowledged_to_a_killed_client_are_stored(
    store: PostgresStore, postgres_address: str
) -> None:
    acknowledged: list[str] = []
    for _ in range(5):
        writer = run(WRITER, postgres_address)
        assert writer.stdout is not None
        acknowledged += [writer.stdout.readline().strip() for _ in range(10)]
        writer.kill()
        rest = writer.stdout.read()  # also what was read ahead
        writer.communicate(timeout=PATIENCE_S)
        acknowledged += [
            line.strip() for line in rest.splitlines(keepends=True) if line[-1] == "\n"
        ]
        store.open("s").append(ChatMessage.user("and the next one goes on"))
    kept = ids_in(store)
    assert [id for id in kept if id in set(acknowledged)] == acknowledged
    assert store.verify("s").is_intact


FORKER = """
import os, sys
from steno import ChatMessage
from steno.store import open_store
store = open_store(sys.argv[1])
talk = store.open("s")
talk.append(ChatMessage.user("before"))
closing = os.fork()
if not closing:
    store.close()
    os._exit(0)
assert os.waitpid(closing, 0)[1] == 0
(before,) = store._connections._idle
talk.append(ChatMessage.user("between"))
assert store._connections._idle == [before]
writing = os.fork()
talk = store.new(id="t") if writing else store.open("s")
for number in range(20):
    talk.append(ChatMessage.user(f"{number}"))
store.close()
if writing:
    assert os.waitpid(writing, 0)[1] == 0
"""


def test_a_forked_process_does_not_use_the_connections_of_its_parent(
    store: PostgresStore, postgres_address: str
) -> None:
    forker = run(FORKER, postgres_address)
    forker.communicate(timeout=PATIENCE_S)
    assert forker.returncode == 0
    assert [message.text for message in store.open("s").messages()][2:] == [*map(str, range(20))]
    assert [message.text for message in store.open("t").messages()] == [*map(str, range(20))]


# -- secrets ---------------------------------------------------------------------------------


def shown(error: BaseException) -> str:
    return repr(error) + "".join(traceback.format_exception(error))


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:hunter2@127.0.0.1:1/db",
        "postgresql://me@127.0.0.1:1/db?password=hunter2",
        "postgresql://me:hunter2@/db?host=/nowhere",
        "postgresql://me:hunter2@127.0.0.1:port/db",
        "postgresql://me:hunter2@127.0.0.1:1:2/db",
        "postgresql://me:hunter2@127.0.0.1/db?nonsense=1",
        "postgresql://me:hunter2%zz@127.0.0.1/db",
        "postgresql://me:@hunter2@127.0.0.1:1/db",
        "postgresql://me:1/hunter2@127.0.0.1:1/db",
        "postgresql://me:1?hunter2@127.0.0.1:1/db",
        "postgresql://me:1#hunter2@127.0.0.1:1/db",
        "postgresql://me:hunter2 @127.0.0.1:1/db",
        "postgresql://[me:hunter2@127.0.0.1:1/db",
        "postgresql://me:hunter2@127.0.0.1:1/db?schema=hunter2!",
    ],
)
def test_no_error_shows_the_password(address: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(StenoError) as refused:
        PostgresStore(address)
    assert isinstance(refused.value, Unavailable | InvalidValue)
    assert "hunter2" not in shown(refused.value)
    assert "hunter2" not in caplog.text


def test_a_wrong_password_is_explained_and_the_right_one_not_shown(
    own_server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    address = own_server.new_database()
    own_server.execute("CREATE ROLE guarded LOGIN SUPERUSER PASSWORD 'hunter2@/'")
    rules = "VALUES ('local all guarded scram-sha-256'), ('local all all trust')"
    own_server.execute(f"COPY ({rules}) TO '{own_server.folder}/pg_hba.conf'")
    own_server.execute("SELECT pg_reload_conf()")
    guarded = address.replace("postgres@", "guarded:{}@")
    wrong = "nearly-hunter2"
    with pytest.raises(Unavailable) as refused:
        PostgresStore(guarded.format(wrong))
    assert refused.value.code == "server_unreachable"
    assert wrong not in shown(refused.value)
    with PostgresStore(guarded.format("hunter2%40%2F")) as store:
        assert list(store.headers()) == []
        assert "hunter2" not in repr(store) + repr(vars(store))
    assert "hunter2" not in caplog.text
