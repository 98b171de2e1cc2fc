"""The program in which an embedded model runs: llama.cpp's own server, on loopback.

It gets one line of JSON on standard input, says one on standard output when the model can be
asked, and ends when standard input does, whatever became of its parent. It imports nothing of
steno. Why a process: loading holds the interpreter's lock for seconds, llama.cpp ends its process
where it finds something impossible, and its server cannot stop while an answer is half read.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

xllamacpp: Any = import_module("xllamacpp")  # it is Cython and says nothing about types

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
    os._exit(0)  # its destructor would wait for answers that nobody reads any more


def _parameters(wanted: Mapping[str, Any]) -> Any:
    parameters: Any = xllamacpp.CommonParams()
    parameters.model.path = wanted["path"]
    parameters.model_alias = {wanted["name"]}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.api_keys = [wanted["key"]]  # others on this machine can reach the port as well
    parameters.n_ctx = wanted["context_tokens"]
    parameters.n_predict = wanted["most_tokens"]
    parameters.n_parallel = 1
    parameters.cpuparams.n_threads = wanted["threads"]
    parameters.cpuparams_batch.n_threads = wanted["threads"]
    parameters.cache_ram_mib = 256
    parameters.use_jinja = True
    parameters.offline = True
    parameters.warmup = False
    parameters.ui = False
    parameters.endpoint_slots = False
    parameters.verbosity = _ERRORS_ONLY
    return parameters


def _write_line(answer: Mapping[str, str]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
