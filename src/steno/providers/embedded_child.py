"""The program in which an embedded model runs: llama.cpp's own server, on loopback.

It reads one line of JSON from standard input, writes one to standard output when the model is
loaded, and ends when standard input does, whatever happened to its parent. It imports nothing of
steno. Why a process: loading holds the interpreter's lock for seconds, llama.cpp ends its process
on an internal error, and its server cannot stop while a response is half read.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

xllamacpp: Any = import_module("xllamacpp")  # it is Cython, without types

_ERRORS_ONLY = 1


def main() -> None:
    """Serve until standard input is closed."""
    try:
        server = xllamacpp.Server(_parameters(json.loads(sys.stdin.readline())))
    except RuntimeError as exc:
        _write_line({"error": str(exc)})
        return
    # It has loaded the model and listens by now, on a port that the system chose.
    _write_line({"address": server.listening_address})
    sys.stdin.read()
    os._exit(0)  # its destructor would wait for the readers of open responses


def _parameters(settings: Mapping[str, Any]) -> Any:
    parameters: Any = xllamacpp.CommonParams()
    parameters.model.path = settings["path"]
    parameters.model_alias = {settings["name"]}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.api_keys = [settings["key"]]  # others on this machine can reach the port as well
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
