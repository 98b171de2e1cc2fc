"""Run the conformance kit for wires and providers, and print the results as a matrix."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from steno.providers import CATALOG
from steno.testing.case_results import CaseOutcome, format_matrix, import_named
from steno.testing.conformance.cases import run_stream_cases, run_wire_cases
from steno.testing.conformance.scripted_server import ScriptedServer
from steno.testing.conformance.servers import SERVERS
from steno.testing.conformance.stream_cases import (
    HttpProviderHarness,
    ProviderHarness,
    ReplayProviderHarness,
    ScriptedProviderHarness,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the kit and print the matrix; return 1 if a case failed, else 0."""
    parser = argparse.ArgumentParser(
        prog="python -m steno.testing.conformance",
        description="Run every case against every wire and print a matrix. A cell is ok, a dash"
        " if the protocol cannot express the case, or FAIL with the reason below the matrix.",
    )
    parser.add_argument(
        "--wire",
        action="append",
        default=[],
        type=_find_server,
        metavar="MODULE:SERVER",
        help="test the wire of your own ScriptedServer; can be repeated",
    )
    parser.add_argument("--only", action="store_true", help="do not test the wires of steno")
    parser.add_argument("--streams", action="store_true", help="test providers instead of wires")
    parser.add_argument(
        "--reasons", action="store_true", help="print below the matrix why cases do not apply"
    )
    options = parser.parse_args(arguments)
    servers = [*([] if options.only else SERVERS), *options.wire]
    if not servers:
        parser.error("--only requires --wire MODULE:SERVER")
    if options.streams:
        harnesses = _stream_harnesses(servers)
        results = [result for harness in harnesses for result in run_stream_cases(harness)]
    else:
        results = [result for server in servers for result in run_wire_cases(server)]
    unasked = (CaseOutcome.NOT_APPLICABLE,) if options.reasons else ()
    sys.stdout.write(format_matrix(results, explained=(CaseOutcome.FAIL, *unasked)))
    return int(any(result.outcome is CaseOutcome.FAIL for result in results))


def _stream_harnesses(servers: Sequence[ScriptedServer]) -> list[ProviderHarness]:
    wires = {vendor.wire for vendor in CATALOG.values()}
    return [
        ScriptedProviderHarness(),
        *[HttpProviderHarness(server) for server in servers if server.wire.NAME in wires],
        *[ReplayProviderHarness(server) for server in servers],
    ]


def _find_server(place: str) -> ScriptedServer:
    """Import the server `module:name`, which is an instance or a class without parameters.

    Raises ArgumentTypeError if it is not a ScriptedServer.
    """
    found = import_named(place, "SERVER")
    server = found() if isinstance(found, type) else found
    if not isinstance(server, ScriptedServer):
        raise argparse.ArgumentTypeError(f"{place} is not a ScriptedServer")
    return server


if __name__ == "__main__":
    sys.exit(main())
