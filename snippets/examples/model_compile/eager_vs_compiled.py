"""Eager against compiled

Whole training steps with the model eager and with it compiled, in turn: the same weights, the same
stream of text, and whatever else the machine does falls on both sides of the ratio. The optimizer's
functions are compiled on both.
"""

import torch
from torch import nn

from fba_lab import measure
from snippets import train_gpt

LAB = dict(
    block="model-compile",
    devices=["cpu", "h200"],
    main=True,
    limit_s=400,
    cache="shared",
    data=["sotu"],
    raises=None,
    heavy=False,
)


ROUNDS = {"cpu": 12, "cuda": 24}


def main() -> None:
    device = torch.device(measure.device())
    config = train_gpt.PRESETS["speedrun" if device.type == "cuda" else "tiny"]
    eager = train_gpt.build_model(config, device)
    optimizer = train_gpt.MuonAndAdam(eager, config)
    models = {"eager": eager, "compiled": train_gpt.compile_model(eager, config)}  # same weights
    files = train_gpt.shard_files(measure.data("sotu"), "train")
    stream = train_gpt.data_stream(files, config, device)

    def time_step(model: nn.Module, warmup: int) -> list[float]:
        def step() -> None:
            train_gpt.train_step(model, optimizer, stream, config, step=0)

        return measure.timed(step, warmup=warmup, repeats=1, device=device.type)

    for name, model in models.items():
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        time_step(model, warmup=3)  # compiles what is to be compiled
        if device.type == "cuda":
            measure.metric(f"{name}_peak_gb", torch.cuda.max_memory_allocated() / 1e9, "GB")

    ms: dict[str, list[float]] = {name: [] for name in models}
    rounds = measure.rounds(ROUNDS[device.type])
    for _ in range(rounds):
        for name, model in models.items():
            ms[name] += time_step(model, warmup=0)

    tokens = train_gpt.stage_at(config, 0).micro_batches * config.micro_tokens
    for name, samples in ms.items():
        measure.metric(f"{name}_ms", samples, "ms")
        measure.metric(f"{name}_tokens_per_s", [1000 * tokens / t for t in samples], "tokens/s")
    measure.metric("ratio", [e / c for e, c in zip(ms["eager"], ms["compiled"], strict=True)], "x")
    for name, samples in ms.items():
        measure.series(
            f"{name}_step_ms", list(range(rounds)), samples, x_label="round", y_label="ms"
        )
    print(f"{rounds} rounds of {tokens:,} tokens, eager and compiled in turn")


if __name__ == "__main__":
    main()
