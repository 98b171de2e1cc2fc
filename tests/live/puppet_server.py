"""Run the real llama.cpp server with the puppet model until standard input is closed.

A separate program that ends when the tests end, even if they crash.

    python tests/live/puppet_server.py PORT
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

# It is Cython and has no type information.
import xllamacpp  # type: ignore[import-untyped]

MODEL = Path(__file__).parents[1] / "data" / "puppet" / "puppet.gguf"


def main() -> None:
    parameters: Any = xllamacpp.CommonParams()
    parameters.model.path = str(MODEL)
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = int(sys.argv[1])
    parameters.n_ctx = 8192
    parameters.n_parallel = 2
    parameters.use_jinja = True
    parameters.offline = True
    parameters.warmup = False
    parameters.cpuparams.n_threads = 1
    parameters.cpuparams_batch.n_threads = 1
    parameters.model_alias = {"puppet"}
    server = xllamacpp.Server(parameters)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.read()
    del server


if __name__ == "__main__":
    main()
