"""A server for the wire `lab/lines.py`, for the conformance kit.

PYTHONPATH=examples python -m steno.testing.conformance --only --wire lab.lines_server:LinesServer
"""

from steno import StopReason
from steno.testing.conformance import (
    CallFragment,
    KeepAlive,
    NotExpressible,
    Script,
    ScriptedServer,
    ScriptLine,
    ServerFailure,
    TextPiece,
    TurnEnd,
    UnknownEvent,
    WholeCall,
    encode_json,
)
from steno.wire import load_wire


class LinesServer(ScriptedServer):
    """A server with a minimal protocol; it raises `NotExpressible` for the rest."""

    wire = load_wire("lab.lines")
    requests = (
        b'model "m"\nsystem "Be brief."\nuser "1 + 2?"',
        b'user "1 + 2?"\ncall c1 add {"a": 1}\nfailed c1 "b is missing"\nassistant "What is b?"',
    )

    def frames(self, script: Script) -> list[bytes]:
        """Return a line of the protocol for each line of the script."""
        return [_encode(line) + b"\n" for line in script]

    def response(self, script: Script) -> bytes:
        """Return the same lines in one piece: the protocol has no other form."""
        return b"".join(self.frames(script))


def _encode(line: ScriptLine) -> bytes:
    match line:
        case TextPiece():
            return b"text " + encode_json(line.text)
        case WholeCall(id, name, arguments) if id and arguments:
            return f"call {id} {name} {arguments}".encode()
        case UnknownEvent():
            return b"show " + encode_json(line.token)
        case KeepAlive():
            return b""
        case ServerFailure():
            return b"error " + encode_json(line.message)
        case TurnEnd(
            StopReason.END_TURN | StopReason.TOOL_USE, usage=None, raw=None, has_end_marker=True
        ):
            return b"done"  # the lines show whether there are calls
        case TurnEnd():
            raise NotExpressible("a stop reason or usage: the only end is done")
        case WholeCall() | CallFragment():
            raise NotExpressible("a part of a call: it is one line")
        case _:
            raise NotExpressible(line)
