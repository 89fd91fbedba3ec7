"""How much of the table a step touches

The gradient of the table is as large as the table, and mostly zero. Counted over the micro-batches
of the speedrun's steps, on a table of the true number of rows; its width doesn't matter here.
"""

import torch

from fba_lab import measure
from snippets import train_gpt

LAB = dict(
    block="bigram-embed",
    devices=["cpu"],
    main=False,
    limit_s=240,
    cache="shared",
    data=["sotu"],
    raises=None,
    heavy=False,
)


def main() -> None:
    device = torch.device(measure.device())
    config = train_gpt.Config(layers=1, width=8, heads=1, layer_pattern="L")
    files = train_gpt.shard_files(measure.data("sotu"), "train")
    stream = train_gpt.data_stream(files, config, device)
    model = train_gpt.build_model(config, device)
    most = max(stage.micro_batches for stage in config.stages)
    shares = []
    for _ in range(most):
        bigram_TD = model.bigram(next(stream).bigram_T)
        bigram_TD.sum().backward()  # adds into .grad, as the micro-batches of a step do
        touched = (model.bigram_weight.grad != 0).any(dim=-1).sum().item()
        shares.append(100 * touched / config.bigram_rows)
    labels = dict(x_label="micro-batches", y_label="% of the rows with a gradient")
    measure.series("touched", list(range(1, most + 1)), shares, **labels)
    first = config.stages[0].micro_batches
    for name, count in (("one_micro_batch", 1), ("first_stage_step", first), ("last_stage", most)):
        measure.metric(f"{name}_touched", shares[count - 1], "%")
    measure.metric("at_most_touched", 100 * config.micro_tokens / config.bigram_rows, "%")


if __name__ == "__main__":
    main()
