"""The kit run on all our stores, which must pass, and on broken stores, which must fail."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from steno.testing.stores import (
    STORE_CASES,
    AddressStoreHarness,
    CaseOutcome,
    CaseResult,
    MemoryStoreHarness,
    NotApplicable,
    StoreCase,
    StoreHarness,
    format_matrix,
    run_crash_rounds,
    run_store_case,
    run_store_cases,
)
from steno.testing.stores.__main__ import main
from steno.testing.stores.crash import main as crash
from steno.testing.stores.in_pytest import store_test
from tests.store.broken_disk_stores import Wrapped
from tests.store.broken_stores import IN_MEMORY, ON_DISK, BrokenSubject, on_disk

each_case = pytest.mark.parametrize("case", STORE_CASES, ids=lambda case: case.__name__)
FOR_FILES = {
    "torn_last_record",
    "nul_padding",
    "truncated_files",
    "spliced_files",
    "read_only_store",
}
"""Those that damage files, which a server keeps to itself."""
FOR_DISKS = FOR_FILES | {
    "append_and_read_back",
    "writes_visible_to_others",
    "two_processes_same_branch",
    "two_processes_two_branches",
    "full_disk",
    "crash",
}
"""Those that ask for more than memory; what else is broken on a disk was broken there before."""


def judge(case: StoreCase, subject: StoreHarness) -> None:
    result = run_store_case(case, subject)
    assert result.outcome is CaseOutcome.OK, str(result)


# -- our stores --------------------------------------------------------------------------------


@pytest.mark.requirement("S1-09", "S3-05", "S3-06")
@each_case
def test_memory(case: StoreCase) -> None:
    result = run_store_case(case, MemoryStoreHarness())
    is_asked = case.__name__ not in FOR_DISKS - {"append_and_read_back", "writes_visible_to_others"}
    assert result.outcome is (CaseOutcome.OK if is_asked else CaseOutcome.NOT_APPLICABLE), str(
        result
    )


@pytest.mark.requirement("S1-09", "S3-05", "S3-06")
@each_case
def test_jsonl(case: StoreCase, tmp_path: Path) -> None:
    judge(case, AddressStoreHarness("jsonl", f"jsonl:{tmp_path / 'log'}"))


@pytest.mark.requirement("S1-09", "S3-05", "S3-06")
@each_case
def test_sqlite(case: StoreCase, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    judge(case, AddressStoreHarness("sqlite", f"sqlite:{folder / 'log.db'}"))


@pytest.mark.requirement("S1-09", "S3-05", "S3-06")
@each_case
def test_postgres(case: StoreCase, postgres_address: str) -> None:
    result = run_store_case(case, AddressStoreHarness("postgres", postgres_address))
    is_asked = case.__name__ not in FOR_FILES
    assert result.outcome is (CaseOutcome.OK if is_asked else CaseOutcome.NOT_APPLICABLE), str(
        result
    )


# -- broken stores -----------------------------------------------------------------------------


@cache
def failures(kind: type[Wrapped]) -> dict[str, CaseResult]:
    results = run_store_cases(BrokenSubject(kind))
    return {result.case: result for result in results if result.outcome is CaseOutcome.FAIL}


@pytest.mark.parametrize("kind", IN_MEMORY, ids=lambda kind: kind.__name__)
def test_a_broken_store_fails_exactly_the_cases_that_it_should(kind: type[Wrapped]) -> None:
    assert failures(kind).keys() == set(kind.fails.split())
    assert all(result.reason for result in failures(kind).values())


@pytest.mark.parametrize("kind", ON_DISK, ids=lambda kind: kind.__name__)
def test_a_broken_store_on_disk_fails_exactly_the_cases_that_it_should(
    kind: type[Wrapped], tmp_path: Path
) -> None:
    subject = on_disk(kind, tmp_path)
    cases = [case for case in STORE_CASES if case.__name__ in FOR_DISKS]
    results = [run_store_case(case, subject) for case in cases]
    failed = {result.case for result in results if result.outcome is CaseOutcome.FAIL}
    assert failed - set(kind.may_fail.split()) == set(kind.fails.split())


@each_case
def test_every_case_fails_for_some_broken_store(case: StoreCase) -> None:
    assert any(case.__name__ in kind.fails.split() for kind in (*IN_MEMORY, *ON_DISK))


def test_a_wrapped_store_without_a_fault_passes_every_case() -> None:
    assert failures(Wrapped) == {}


# -- the kit itself ----------------------------------------------------------------------------


def test_every_case_has_a_unique_name_and_a_docstring() -> None:
    names = [case.__name__ for case in STORE_CASES]
    assert len(set(names)) == len(names)
    assert all((inspect.getdoc(case) or "").endswith(".") for case in STORE_CASES)


def test_a_case_that_crashes_is_a_failure_with_its_place() -> None:
    def crashes(subject: StoreHarness) -> None:
        raise KeyError("missing")

    result = run_store_case(crashes, MemoryStoreHarness())
    assert result.outcome is CaseOutcome.FAIL
    assert result.reason.startswith("crashed: KeyError in test_conformance.py:")


def test_a_case_removes_the_sessions_and_blobs_that_it_stored() -> None:
    subject = MemoryStoreHarness()
    kept = subject.open().new().id
    blob = subject.open().put_blob(b"kept")

    def writes(subject: StoreHarness) -> None:
        subject.open().new()
        subject.open().put_blob(b"left")

    assert run_store_case(writes, subject).outcome is CaseOutcome.OK
    assert [header.id for header in subject.open().headers()] == [kept]
    assert [found.sha256 for found in subject.open().blobs()] == [blob]


def test_the_matrix_shows_every_case_and_why_it_failed() -> None:
    table = format_matrix(run_store_cases(BrokenSubject(next(iter(IN_MEMORY)))))
    lines = table.splitlines()
    assert lines[0].split() == [IN_MEMORY[0].__name__]
    cells = [line.split() for line in lines]
    assert ["missing_session", "ok"] in cells
    assert ["crash", "–"] in cells
    assert any(
        line.startswith("LosesTheLastRecord · reopen_and_continue: entries after") for line in lines
    )


def test_the_command_prints_the_matrix(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["memory:"]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines()[0].strip() == "memory"
    assert "FAIL" not in printed.out
    assert printed.err == ""


def test_the_command_returns_1_if_a_case_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    opener = "tests.store.broken_stores:open_in_memory"
    cases = ["--case", "heads_order", "--case", "odd_text"]
    assert main([f"broken:{tmp_path}", "--opener", opener, *cases]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed[1:3] == ["heads_order  FAIL", "odd_text     ok"]
    assert printed[4].startswith("broken · heads_order: branches after three forks: expected")


def test_the_command_refuses_a_store_that_is_not_empty(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = f"jsonl:{tmp_path / 'log'}"
    with AddressStoreHarness("jsonl", address).open() as store:
        store.new()
    assert main([address]) == 2
    assert capsys.readouterr().err == "jsonl: the store is not empty; use an empty store\n"
    assert main(["nowhere:x"]) == 2


NOT_A_FUNCTION = 7


@pytest.mark.parametrize("command", [main, crash], ids=["kit", "crash"])
@pytest.mark.parametrize(
    ("opener", "reason"),
    [
        ("speaking", "speaking: expected MODULE:FUNCTION"),
        ("speaking:", "speaking:: expected MODULE:FUNCTION"),
        (":open", ":open: expected MODULE:FUNCTION"),
        ("no_such_module:open", "no_such_module:open cannot be imported"),
        (".near:open", ".near:open cannot be imported"),
        ("tests.store.test_conformance:NOTHING", "cannot be imported"),
        ("tests.store.test_conformance:NOT_A_FUNCTION", "is not a function"),
    ],
)
def test_an_invalid_opener_is_refused(
    command: Callable[[list[str]], int],
    opener: str,
    reason: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as caught:
        command(["memory:", "--opener", opener])
    assert caught.value.code == 2
    assert reason in capsys.readouterr().err


def test_the_crash_command_prints_the_number_of_kills(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert crash([f"jsonl:{tmp_path / 'log'}", "--rounds", "3", "--seed", "5"]) == 0
    assert capsys.readouterr().out.startswith("jsonl: 3 kills in ")


def test_the_crash_command_returns_1_if_an_entry_was_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    opener = "tests.store.broken_disk_stores:open_writes_late"
    assert crash([str(tmp_path / "log"), "--rounds", "12", "--opener", opener]) == 1
    assert "FAIL, round " in capsys.readouterr().out


def test_crash_rounds_do_not_apply_to_a_store_in_memory() -> None:
    with pytest.raises(NotApplicable):
        run_crash_rounds(MemoryStoreHarness(), 1)


def test_the_writer_is_a_program(tmp_path: Path) -> None:
    address = f"jsonl:{tmp_path / 'log'}"
    command = [sys.executable, "-m", "steno.testing.stores.writer", address, "talk"]
    done = subprocess.run(
        [*command, "--entries", "9"], input="\n", capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    assert lines[:2] == ["ready", "session"]
    assert len(lines) == 11
    with AddressStoreHarness("jsonl", address).open() as store:
        assert len(list(store.records("talk"))) == 9
        assert store.verify("talk").is_intact


def test_the_kit_can_be_a_test_of_pytest(tmp_path: Path) -> None:
    made: Callable[..., None] = store_test(lambda folder: MemoryStoreHarness())
    made(STORE_CASES[0], tmp_path)
    with pytest.raises(pytest.skip.Exception, match="not applicable"):
        made(STORE_CASES[-1], tmp_path)
    broken = store_test(lambda folder: BrokenSubject(IN_MEMORY[0]))
    with pytest.raises(pytest.fail.Exception, match="reopen_and_continue"):
        broken(STORE_CASES[1], tmp_path)
