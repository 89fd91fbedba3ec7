"""The curriculum's window resize

The model goes through the windows of the stages (a CPU: through some more), then back to the first.
Every call is forward and backward; the first one with a new pair of windows compiles. Dynamo's own
recompile log says which guard sent it there.
"""

import logging
import re
import time

import torch
from torch._dynamo.utils import counters

from fba_lab import measure
from snippets import train_gpt

LAB = dict(
    block="model-compile",
    devices=["cpu", "h200"],
    main=False,
    limit_s=400,
    cache="shared",
    data=["sotu"],
    raises=None,
    heavy=False,
)
LATER = 10


class Kept(logging.Handler):
    """Keeps the lines of the log that say which guard failed."""

    lines: list[str]

    def emit(self, record: logging.LogRecord) -> None:
        found = re.findall(r"- \d+/\d+: (.*?)(?:\s+#.*)?$", record.getMessage(), re.MULTILINE)
        self.lines += [line for line in found if line not in self.lines]


def main() -> None:
    device = torch.device(measure.device())
    config = train_gpt.PRESETS["speedrun" if device.type == "cuda" else "tiny"]
    files = train_gpt.shard_files(measure.data("sotu"), "train")
    batch = next(train_gpt.data_stream(files, config, device))
    model = train_gpt.compile_model(train_gpt.build_model(config, device), config)
    log = Kept()
    torch._logging.set_logs(recompiles=True)
    logger = logging.getLogger("torch._dynamo.guards.__recompiles")
    logger.addHandler(log)
    logger.propagate = False

    def seconds(windows: tuple[int, int]) -> float:
        start = time.perf_counter()
        model(*batch, windows).backward()
        if device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - start

    stages = list(dict.fromkeys(stage.windows for stage in config.stages))
    # The tiny preset has two stages, too few resizes to time. No other example uses these windows,
    # so none of them is found in the caches of a recording. On a GPU each takes long to compile.
    more = [(80, 160), (96, 192), (112, 224)]
    stages = stages[:1] + more if device.type == "cpu" else stages[:3]
    rows, resized, later = [], [], []
    for windows in [*stages, stages[0]]:
        log.lines = []
        before = counters["stats"]["unique_graphs"]
        first = seconds(windows)
        graphs = counters["stats"]["unique_graphs"]
        new = graphs > before
        later += [seconds(windows) for _ in range(LATER)]
        if new and before:
            resized.append(first)
        rows.append([f"{windows[0]}/{windows[1]}", "yes" if new else "no", graphs, *log.lines[:1]])
    for row in rows:
        row += [None] * (4 - len(row))
    measure.table("calls", ["windows", "compiled", "graphs so far", "guard that failed"], rows)
    measure.metric("graphs", counters["stats"]["unique_graphs"], "graphs")
    measure.metric("resize_s", resized, "s")
    measure.metric("later_ms", [1000 * taken for taken in later], "ms")


if __name__ == "__main__":
    main()
