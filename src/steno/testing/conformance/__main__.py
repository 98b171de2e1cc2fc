"""Print the matrix: `python -m steno.testing.conformance [--wire module:speaker] [--streams]`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from steno.providers import CATALOG
from steno.testing.conformance.run import (
    Result,
    Verdict,
    matrix,
    run_stream_cases,
    run_wire_cases,
)
from steno.testing.conformance.speaker import Speaker
from steno.testing.conformance.speakers import SPEAKERS
from steno.testing.conformance.stage import HttpStage, ReplayStage, ScriptedStage, Stage


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the kit; return 1 if anything failed, else 0."""
    parser = argparse.ArgumentParser(
        prog="python -m steno.testing.conformance",
        description="Runs every case against every wire and prints a matrix: ok, a dash where"
        " the protocol has no way to say it, or FAIL with the reason below.",
    )
    parser.add_argument(
        "--wire",
        action="append",
        default=[],
        type=_speaker,
        metavar="MODULE:SPEAKER",
        help="add a wire of your own, by its Speaker; may be given more than once",
    )
    parser.add_argument("--only", action="store_true", help="leave out the wires of steno")
    parser.add_argument("--streams", action="store_true", help="show providers instead of wires")
    parser.add_argument(
        "--reasons", action="store_true", help="tell why a case was not asked, below the matrix"
    )
    asked = parser.parse_args(arguments)
    speakers = [*([] if asked.only else SPEAKERS), *asked.wire]
    if not speakers:
        parser.error("--only leaves no wire; name one: --wire MODULE:SPEAKER")
    results = _run_streams(speakers) if asked.streams else _run_wires(speakers)
    unasked = (Verdict.NOT_APPLICABLE,) if asked.reasons else ()
    sys.stdout.write(matrix(results, explained=(Verdict.FAIL, *unasked)))
    return int(any(result.outcome is Verdict.FAIL for result in results))


def _run_wires(speakers: Sequence[Speaker]) -> list[Result]:
    return [result for speaker in speakers for result in run_wire_cases(speaker)]


def _run_streams(speakers: Sequence[Speaker]) -> list[Result]:
    stages: list[Stage] = [ScriptedStage()]
    spoken = {vendor.wire for vendor in CATALOG.values()}
    stages += [HttpStage(speaker) for speaker in speakers if speaker.wire.NAME in spoken]
    stages += [ReplayStage(speaker) for speaker in speakers]
    return [result for stage in stages for result in run_stream_cases(stage)]


def _speaker(place: str) -> Speaker:
    """Find a speaker by `module:name`: an instance, or a class that needs nothing."""
    module, _, name = place.partition(":")
    if not module or not name:
        raise argparse.ArgumentTypeError(f"{place}: write MODULE:SPEAKER")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError, TypeError) as exc:
        raise argparse.ArgumentTypeError(f"{place} cannot be imported: {exc}") from exc
    speaker = found() if isinstance(found, type) else found
    if not isinstance(speaker, Speaker):
        raise argparse.ArgumentTypeError(f"{place} is no Speaker")
    return speaker


if __name__ == "__main__":
    sys.exit(main())
