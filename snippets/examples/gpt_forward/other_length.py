"""A batch of another length

The same weights, eager, given the first half of a micro-batch. Nothing is compiled here: what
refuses is not a guard.
"""

import torch

from fba_lab import measure
from snippets import train_gpt

LAB = dict(
    block="gpt-forward",
    devices=["cpu"],
    main=False,
    limit_s=120,
    cache="shared",
    data=["sotu"],
    raises=("RuntimeError", "must match the size"),
    heavy=False,
)


def main() -> None:
    device = torch.device(measure.device())
    config = train_gpt.PRESETS["tiny"]
    files = train_gpt.shard_files(measure.data("sotu"), "train")
    inputs_T, targets_T, bigram_T, cu_seqlens_S = next(train_gpt.data_stream(files, config, device))
    model = train_gpt.build_model(config, device)
    for tokens in (config.micro_tokens, config.micro_tokens // 2):
        some = slice(0, tokens)
        ends = cu_seqlens_S.clamp(max=tokens)
        batch = inputs_T[some], targets_T[some], bigram_T[some], ends
        print(f"{tokens} tokens: embedding {tuple(model.embed(batch[0]).shape)}")
        loss = model(*batch, config.stages[0].windows)
        print(f"{tokens} tokens: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
