"""What is on disk after a compile

One layer of the tiny model, forward and backward, in a process that starts with empty caches, and
again in a second process that finds them. Which files are there, what the second process takes
from them, and what it makes anew.
"""

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import torch
from torch._dynamo.utils import compile_times, counters

from fba_lab import measure
from snippets import train_gpt

LAB = dict(
    block="model-compile",
    devices=["cpu", "h200"],
    main=False,
    limit_s=300,
    cache="private",
    data=["sotu"],
    raises=None,
    heavy=False,
)
COUNTS = ("fxgraph_cache_miss", "fxgraph_cache_hit", "autograd_cache_miss", "autograd_cache_hit")
PHASES = {  # by what Dynamo calls its own timers
    "tracing": "bytecode_tracing",
    "guards": "build_guards",
    "backend": "OutputGraph.call_user_compiler",
}
PAIRS = 2


def compile_once() -> None:
    """Compile the tiny model in this process and print what was counted, as one line of JSON."""
    device = torch.device(measure.device())
    config = dataclasses.replace(train_gpt.PRESETS["tiny"], layers=1, layer_pattern="L")
    files = train_gpt.shard_files(measure.data("sotu"), "train")
    batch = next(train_gpt.data_stream(files, config, device))
    model = train_gpt.compile_model(train_gpt.build_model(config, device), config)
    model(*batch, config.stages[0].windows).backward()
    found = counters["inductor"] | counters["aot_autograd"]
    names, times = compile_times(repr="csv", aggregate=True)
    seconds = dict(zip(names, map(float, times), strict=True))
    phases = {phase: seconds[timer] for phase, timer in PHASES.items()}
    print(json.dumps({"counts": {name: found[name] for name in COUNTS}, "phases": phases}))


def in_new_process(caches: Path) -> dict:
    """Run `compile_once` in a fresh interpreter that keeps its compiled code under `caches`."""
    env = os.environ | {
        "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
        "TRITON_CACHE_DIR": str(caches / "triton"),
    }
    command = [sys.executable, __file__, "once"]
    run = subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(run.stdout.splitlines()[-1])


def files_by_kind(caches: Path) -> list[list]:
    """Number and size of the files of each kind: where they lie, and how their names end."""
    kinds: dict[tuple[str, str], list[int]] = defaultdict(list)
    for path in filter(Path.is_file, caches.rglob("*")):
        top, *folders, name = path.relative_to(caches).parts
        folder = folders[0] if folders else ""
        if top == "triton" or len(folder) == 2:  # named by a hash, or by two letters of one
            folder = "<hash>"
        kinds[f"{top}/{folder}", Path(name).suffix or "(none)"].append(path.stat().st_size)
    sums = [(kind, len(sizes), round(sum(sizes) / 1024, 1)) for kind, sizes in kinds.items()]
    return [[*kind, files, size] for kind, files, size in sorted(sums)]


def main() -> None:
    runs: dict[str, list[dict]] = {"first": [], "second": []}
    for _ in range(measure.rounds(PAIRS)):
        with tempfile.TemporaryDirectory() as folder:
            for process in runs:
                runs[process].append(in_new_process(Path(folder)))
            rows = files_by_kind(Path(folder))
    measure.table("files", ["folder", "suffix", "files", "KiB"], rows)
    measure.metric("files", sum(row[2] for row in rows), "files")
    for process, results in runs.items():
        for phase in PHASES:
            measure.metric(f"{process}_{phase}_s", [run["phases"][phase] for run in results], "s")
    last = {process: results[-1]["counts"] for process, results in runs.items()}
    rows = [[name, *(last[process][name] for process in runs)] for name in COUNTS]
    measure.table("counters", ["counter", *runs], rows)


if __name__ == "__main__":
    compile_once() if sys.argv[1:] == ["once"] else main()
