"""The program that runs an embedded model: the server of llama.cpp on the loopback interface.

The program reads one line of JSON from standard input, and writes one line of JSON to standard
output when the model is loaded. It ends when standard input is closed, even if its parent crashed.
It does not import steno. It is a separate process because loading a model holds the GIL for
seconds, llama.cpp ends its process on an internal error, and its server cannot stop while a
response is half read.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

xllamacpp: Any = import_module("xllamacpp")  # a Cython module without type hints

_ERRORS_ONLY = 1


def main() -> None:
    """Serve until standard input is closed."""
    try:
        server = xllamacpp.Server(_parameters(json.loads(sys.stdin.readline())))
    except RuntimeError as exc:
        _write_line({"error": str(exc)})
        return
    # The constructor has loaded the model; the server listens on a port that the system chose.
    _write_line({"address": server.listening_address})
    sys.stdin.read()
    os._exit(0)  # the destructor of the server would wait for clients that are still reading


def _parameters(settings: Mapping[str, Any]) -> Any:
    parameters: Any = xllamacpp.CommonParams()
    parameters.model.path = settings["path"]
    parameters.model_alias = {settings["name"]}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.api_keys = [settings["key"]]  # other users of this machine can reach the port
    parameters.n_ctx = settings["context_tokens"]
    parameters.n_predict = settings["most_tokens"]
    parameters.n_parallel = 1
    parameters.cpuparams.n_threads = settings["threads"]
    parameters.cpuparams_batch.n_threads = settings["threads"]
    parameters.cache_ram_mib = 256
    parameters.use_jinja = True
    parameters.offline = True
    parameters.warmup = False
    parameters.ui = False
    parameters.endpoint_slots = False
    parameters.verbosity = _ERRORS_ONLY
    return parameters


def _write_line(reply: Mapping[str, str]) -> None:
    sys.stdout.write(json.dumps(reply) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
