"""A temperature that the vendor of the model does not accept: refused as a flag, else lowered."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from steno.agent import Notice
from steno.app.commands.arguments import UsageError
from tests.app.project_setup import make_project, write_settings
from tests.app.scripted_vendor import ScriptedVendor, run_vendor
from tests.app.session_setup import open_user_session, run
from tests.cli.program import run_steno

LIMIT = "max_temperature = 1\n"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_project(tmp_path, monkeypatch)


@contextmanager
def two_vendors(home: Path, *turns: str, settings: str = "") -> Generator[ScriptedVendor]:
    """Run a server for the vendor `lab`, which accepts at most 1, and the vendor `warm`."""
    with run_vendor(*turns) as known:
        warm = known.settings.replace("providers.lab", "providers.warm")
        write_settings(home, f"{settings}\n{known.settings}{LIMIT}{warm}")
        yield known


def sent_temperatures(vendor: ScriptedVendor) -> list[float | None]:
    return [request.get("temperature") for request in vendor.seen]


@pytest.mark.requirement("P-19")
@pytest.mark.parametrize("chosen", [["--model", "lab/tester"], ["-c"]], ids=["named", "recorded"])
def test_a_flag_is_refused_before_anything_is_recorded_or_sent(
    home: Path, chosen: list[str]
) -> None:
    with two_vendors(home, "First.") as vendor:
        assert run_steno("-p", "One?", "--model", "lab/tester").status == 0
        before = run_steno("sessions", "list", "--json").out
        output = run_steno("-p", "Two?", *chosen, "--temperature", "1.5")
        assert (output.status, output.out) == (2, "")
        assert (output.code, output.place) == ("out_of_range", "--temperature")
        assert "between 0 and 1" in output.err
        assert run_steno("sessions", "list", "--json").out == before
        assert len(vendor.seen) == 1


def test_a_flag_within_the_range_is_sent(home: Path) -> None:
    with two_vendors(home, "First.", "Second.") as vendor:
        for model, temperature in (("lab", "1"), ("warm", "1.5")):
            output = run_steno(
                "-p", "x", "--model", f"{model}/tester", "--temperature", temperature
            )
            assert output.status == 0
    assert sent_temperatures(vendor) == [1, 1.5]


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e400", "warm"])
def test_a_temperature_that_is_no_number_is_a_usage_error(home: Path, value: str) -> None:
    with two_vendors(home) as vendor:
        output = run_steno("-p", "x", f"--temperature={value}")
    assert (output.status, sent_temperatures(vendor)) == (2, [])
    assert f"must be a number, not {value}" in output.err


@pytest.mark.requirement("P-19")
@pytest.mark.parametrize("is_variable", [False, True])
def test_a_temperature_of_the_settings_is_lowered_and_reported(
    home: Path, monkeypatch: pytest.MonkeyPatch, is_variable: bool
) -> None:
    if is_variable:
        monkeypatch.setenv("STENO_TEMPERATURE", "1.5")
    settings = "" if is_variable else "temperature = 1.5"
    with two_vendors(home, "First.", settings=settings) as vendor:
        output = run_steno("-p", "x", "--model", "lab/tester")
    assert output.status == 0
    assert sent_temperatures(vendor) == [1]
    assert "temperature: " in output.err


def test_a_switch_to_another_model_lowers_the_temperature(project: Path, home: Path) -> None:
    async def main() -> None:
        flags = {"model": "warm/tester", "temperature": 1.5}
        async with open_user_session(project, flags=flags) as user:
            await user.send("One?")
            assert [notice.code for notice in user.events_of(Notice)] == []
            await user.session.change_model("lab/tester")
            await user.send("Two?")
            await user.send("Three?")
            codes = [notice.code for notice in user.events_of(Notice)]
            assert codes == ["temperature_above_model_limit"]

    with two_vendors(home, "First.", "Second.", "Third.") as vendor:
        run(main())
    assert sent_temperatures(vendor) == [1.5, 1, 1]


def test_a_session_is_not_opened_with_a_flag_out_of_range(project: Path, home: Path) -> None:
    async def main() -> None:
        flags = {"model": "lab/tester", "temperature": 1.5}
        with pytest.raises(UsageError) as caught:
            async with open_user_session(project, flags=flags):
                raise AssertionError("opened")
        assert (caught.value.code, caught.value.place) == ("out_of_range", "--temperature")

    with two_vendors(home):
        run(main())
