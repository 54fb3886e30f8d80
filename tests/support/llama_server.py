"""llama.cpp's own server with the adapters of a folder; a new file there starts it anew.

Run by the interpreter of an environment of its own, which has xllamacpp: MODEL FOLDER PORT. It
prints its address when it answers. llama.cpp loads adapters at its start alone, so this is what
the owner of such a server has beside it: a loop that looks into the folder.
"""

import os
import sys
import time
from pathlib import Path

import xllamacpp

LOOK_SECONDS = 0.1


def main(model: str, folder: str, port: str) -> None:
    """Serve until the folder's files are others, then begin again."""
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.hostnames = ["127.0.0.1"]
    params.port = int(port)
    params.n_parallel = 4
    params.n_ctx = 4 * 1024
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.warmup = False
    params.use_jinja = True
    adapters = sorted(Path(folder).glob("*.gguf"))
    loaded = []
    for path in adapters:
        info = xllamacpp.CommonAdapterLoraInfo()
        info.path, info.scale = str(path), 1.0
        loaded.append(info)
    params.lora_adapters = loaded
    params.lora_init_without_apply = True
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    while sorted(Path(folder).glob("*.gguf")) == adapters:
        time.sleep(LOOK_SECONDS)
    os.execv(sys.executable, [sys.executable, *sys.argv])  # noqa: S606  # the same program


if __name__ == "__main__":
    main(*sys.argv[1:])
