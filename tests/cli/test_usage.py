"""`steno usage`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from steno import ChatMessage, Usage
from steno.log.chain import entry_digest
from steno.records.entry import Entry, ModelChange, Payload
from steno.records.stored_record import MAIN_BRANCH, Header, Record
from steno.store import MemoryStore, Store, open_store
from tests.cli.program import copy_to_store, on_terminal, run_steno

NOON = datetime(2025, 6, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
GPT = "openai/gpt-4o"
"""2.50 for a million tokens read, 1.25 where they come from a cache, 10 for a million written."""
OWN = "ollama/llama3.2"


def turn_with_usage(read: int, written: int, cached: int | None = None) -> Payload:
    usage = Usage(input_tokens=read, output_tokens=written, cache_read_tokens=cached)
    return ChatMessage.assistant("So.", usage=usage)


def entries(*steps: tuple[Payload, datetime | None]) -> list[Entry]:
    """Return a chain of entries."""
    return [
        Entry(
            id=f"e{number}",
            parent=f"e{number - 1}" if number else None,
            time=time,
            payload=turn_with_usage,
        )
        for number, (turn_with_usage, time) in enumerate(steps)
    ]


def add(store: Store, session: str, some: Sequence[Entry]) -> None:
    """Keep entries as a session."""

    def records() -> Iterator[Record]:
        digests: dict[str | None, str | None] = {None: None}
        for seq, entry in enumerate(some, start=1):
            digests[entry.id] = digest = entry_digest(entry, digests[entry.parent])
            yield Record(seq=seq, branch=MAIN_BRANCH, entry=entry, digest=digest)

    store.add_session(Header(id=session, created_at=NOON), records())


def new_model(name: str) -> tuple[Payload, datetime]:
    return ModelChange(old="", new=name), NOON


def made(address: str) -> None:
    """Keep two sessions on two days, with a model that costs something and one that may not."""
    store = MemoryStore()
    add(
        store,
        "first",
        entries(
            new_model(GPT),
            (ChatMessage.user("Go"), NOON),
            (turn_with_usage(1_000_000, 100_000, 400_000), NOON),
            (turn_with_usage(2_000, 100), NOON + DAY),
        ),
    )
    add(store, "second", entries(new_model(OWN), (turn_with_usage(500, 50), NOON + DAY)))
    copy_to_store(store, address)


def test_tokens_and_costs_are_added_up_by_model(address: str) -> None:
    made(address)
    output = run_steno("usage")
    assert output.out.splitlines() == [
        "model            turns      input   cached   output      USD",
        "openai/gpt-4o        2  1,002,000  400,000  100,100   3.0060",
        "ollama/llama3.2      1        500        \N{EN DASH}       50        \N{EN DASH}",
        "total                3  1,002,500  400,000  100,150  3.0060+",
    ]
    assert (output.err.count("\n"), "ollama/llama3.2" in output.err) == (1, True)
    assert output.status == 0


def test_tokens_and_costs_are_added_up_by_day(address: str) -> None:
    made(address)
    assert run_steno("usage", "--by", "day", "--all").out.splitlines() == [
        "day         turns      input   cached   output      USD",
        "2025-06-01      1  1,000,000  400,000  100,000   3.0000",
        "2025-06-02      2      2,500        \N{EN DASH}      150  0.0060+",
        "total           3  1,002,500  400,000  100,150  3.0060+",
    ]


def test_tokens_and_costs_are_added_up_by_session(address: str) -> None:
    made(address)
    first, second = (
        line.split() for line in run_steno("usage", "--by", "session").out.splitlines()[1:3]
    )
    assert first == ["first", "2", "1,002,000", "400,000", "100,100", "3.0060"]
    assert second == ["second", "1", "500", "\N{EN DASH}", "50", "\N{EN DASH}"]


def test_one_sum_needs_no_total(address: str) -> None:
    made(address)
    output = run_steno("usage", "first")
    assert len(output.out.splitlines()) == 2
    assert output.err == ""


def test_only_what_is_named_counts(address: str) -> None:
    made(address)
    output = run_steno("usage", "sec", "second", "--by", "session", "--json")
    assert [json.loads(line)["session"] for line in output.out.splitlines()] == ["second"]


def test_only_what_is_late_enough_counts(address: str) -> None:
    made(address)
    output = run_steno("usage", "--since", "2025-06-02", "--json")
    assert [
        (json.loads(line)["model"], json.loads(line)["turns"]) for line in output.out.splitlines()
    ] == [
        (GPT, 1),
        (OWN, 1),
    ]
    output = run_steno("usage", "--since", "1h")
    assert (output.out, output.err.count("\n")) == ("", 1)


def test_programs_get_an_object_for_each_sum(address: str) -> None:
    made(address)
    first, second = map(json.loads, run_steno("usage", "--json").out.splitlines())
    assert first == {
        "model": GPT,
        "turns": 2,
        "input_tokens": 1_002_000,
        "output_tokens": 100_100,
        "cache_read_tokens": 400_000,
        "cache_write_tokens": None,
        "thinking_tokens": None,
        "cost_usd": "3.006",
        "unpriced_models": [],
    }
    assert (second["cost_usd"], second["unpriced_models"]) == (None, [OWN])


def test_abandoned_turns_count_at_the_price_of_their_model(address: str) -> None:
    with open_store(address) as store:
        conversation = store.new([ChatMessage.user("Go")], id="talk")
        start = conversation.change_model(GPT)
        conversation.append(turn_with_usage(1_000, 0))
        conversation.change_model(OWN)
        conversation.append(ChatMessage.user("And?"))
        conversation.append(turn_with_usage(10, 0))
        conversation.rewind(start.id)
        conversation.append(turn_with_usage(2_000, 0))
    sums = {
        row["model"]: row["input_tokens"]
        for row in map(json.loads, run_steno("usage", "talk", "--json").out.splitlines())
    }
    assert sums == {GPT: 3_000, OWN: 10}


def test_turns_that_a_copy_shares_with_its_original_count_once(address: str) -> None:
    made(address)
    with open_store(address) as store:
        copy = store.clone("first")
        copy.append(ChatMessage.user("More"))
        copy.append(turn_with_usage(7_000, 0))
        store.clone(copy.id)
    everything = json.loads(run_steno("usage", "--json").out.splitlines()[0])
    assert (everything["turns"], everything["input_tokens"]) == (3, 1_009_000)
    alone = json.loads(run_steno("usage", copy.id, "--json").out)
    assert (alone["turns"], alone["input_tokens"]) == (3, 1_009_000)


def test_turns_of_the_same_id_in_sessions_that_are_no_copies_all_count(address: str) -> None:
    store = MemoryStore()
    for session in ("one", "two"):
        add(store, session, entries(new_model(GPT), (turn_with_usage(10, 1), NOON)))
    copy_to_store(store, address)
    assert json.loads(run_steno("usage", "--json").out)["turns"] == 2


def test_turns_without_a_time_or_a_model_are_on_no_day_and_of_no_price(address: str) -> None:
    store = MemoryStore()
    add(store, "old", entries((turn_with_usage(10, 1), None)))
    copy_to_store(store, address)
    output = run_steno("usage", "--by", "day")
    assert output.out.splitlines()[1].split() == [
        "\N{EN DASH}",
        "1",
        "10",
        "\N{EN DASH}",
        "1",
        "\N{EN DASH}",
    ]
    assert output.err.count("\n") == 1
    assert json.loads(run_steno("usage", "--by", "day", "--json").out)["day"] is None
    assert run_steno("usage", "--since", "2000-01-01").out == ""


def test_a_cost_that_is_almost_nothing_is_not_nothing(address: str) -> None:
    store = MemoryStore()
    add(store, "tiny", entries(new_model(GPT), (turn_with_usage(10, 0), NOON)))
    copy_to_store(store, address)
    assert run_steno("usage").out.splitlines()[1].split()[-1] == "<0.0001"


def test_names_of_models_are_harmless_on_a_terminal(address: str) -> None:
    store = MemoryStore()
    add(store, "evil", entries(new_model("evil/\x1b]0;x\x07model"), (turn_with_usage(10, 0), NOON)))
    copy_to_store(store, address)
    output = run_steno("usage")
    assert "\x1b" not in output.out + output.err
    assert "\\x1b" in output.out


def test_a_session_that_is_damaged_is_passed_over(tmp_path: Path) -> None:
    address = f"jsonl:{tmp_path / 'store'}"
    made(address)
    (file,) = (tmp_path / "store").rglob("second*.jsonl")
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines[:-1], lines[-1][:-9], lines[-1]]) + "\n")
    output = run_steno("usage", "--store", address)
    assert output.status == 1
    assert GPT in output.out
    assert OWN not in output.out
    assert "session second" in output.err


def test_no_recorded_usage_is_reported() -> None:
    output = run_steno("usage")
    assert (output.status, output.out) == (0, "")
    assert output.err.count("\n") == 1
    assert run_steno("usage", "--json").out == ""


@pytest.mark.parametrize(
    ("arguments", "status"),
    [(["nobody"], 1), (["first", "--all"], 2), (["--by", "week"], 2), (["--since", "soon"], 2)],
)
def test_invalid_arguments_of_usage_are_refused(
    address: str, arguments: list[str], status: int
) -> None:
    made(address)
    output = run_steno("usage", *arguments)
    assert output.status == status
    assert output.out == ""


# -- on a terminal -------------------------------------------------------------------------------


def lines_of_table(output: str) -> list[str]:
    """Return the lines after the header; on a busy machine, progress is shown before it."""
    lines = output.splitlines()
    [header] = [number for number, line in enumerate(lines) if " turns " in line]
    return lines[header + 1 :]


@pytest.mark.parametrize("by", ["day", "session"])
def test_people_get_a_small_chart(address: str, by: str) -> None:
    made(address)
    output = on_terminal("usage", "--by", by, environment={"NO_COLOR": "1", "TERM": "dumb"})
    assert output.status == 0
    first, second, total = lines_of_table(output.out)[:3]
    assert first.count("█") == 16
    assert second.count("█") == 0
    assert "█" not in total
    assert all(len(line) <= 80 for line in (first, second, total))


def test_bars_are_of_costs_where_all_are_known(address: str) -> None:
    store = MemoryStore()
    add(
        store,
        "both",
        entries(
            new_model(GPT),
            (turn_with_usage(40_000, 0), NOON),
            (turn_with_usage(0, 5_000), NOON + DAY),
        ),
    )
    copy_to_store(store, address)
    output = on_terminal("usage", "--by", "day", environment={"NO_COLOR": "1", "TERM": "dumb"})
    first, second = lines_of_table(output.out)[:2]
    assert (first.count("█"), second.count("█")) == (16, 8)


def test_without_a_price_list_the_extra_is_named(address: str) -> None:
    made(address)
    program = "import sys; sys.modules['genai_prices'] = None; from steno.cli.main import main; sys.exit(main())"
    output = on_terminal("usage", command=[sys.executable, "-c", program])
    assert output.status == 0
    assert "prices are unknown: pip install 'steno-agent[prices]'" in output.out
    assert "3.0060" not in output.out
