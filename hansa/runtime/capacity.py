"""How many Jobs run at a time: by cores or GPUs, and at most as many as fit into memory."""

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

JOB_BYTES = 700 * 2**20
"""What a client with a small model uses beyond what it shares with the warm process."""
MODEL_COPIES = 3
"""A base model is held once, and its activations and merged weights take about twice that."""


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """Slots for Jobs, and the GPU of each."""

    slots: int
    """Jobs at a time."""
    gpus: list[str] = field(default_factory=list)
    """GPUs, shared by the slots in turn; none: the CPU."""

    def environ(self, slot: int) -> dict[str, str]:
        """Variables that bind a slot to its GPU."""
        if not self.gpus:
            return {}
        return {"CUDA_VISIBLE_DEVICES": self.gpus[slot % len(self.gpus)]}


def measure(*, threads: int, model_bytes: int = 0, asked: int | None = None) -> Capacity:
    """The machine's capacity for Jobs with this many threads each; `asked` overrides the count."""
    gpus = list_visible_gpus()
    by_device = len(gpus) or max(1, count_usable_cores() // threads)
    by_memory = max(1, measure_available_memory() // (JOB_BYTES + MODEL_COPIES * model_bytes))
    return Capacity(slots=asked or min(by_device, by_memory), gpus=gpus)


def count_usable_cores() -> int:
    """Cores that this process may use; a container often sees more than it has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def measure_available_memory() -> int:
    """Bytes that new processes can use, as far as the system tells."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 8 * 2**30


def list_visible_gpus() -> list[str]:
    """GPUs by index, without importing torch: CUDA must not be touched before a fork."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return [gpu for gpu in chosen.split(",") if gpu and gpu != "-1"]
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    listed = subprocess.run([program, "-L"], capture_output=True, text=True, check=False)
    return [str(i) for i, line in enumerate(listed.stdout.splitlines()) if line.startswith("GPU")]
