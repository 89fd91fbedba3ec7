"""How far back the last token can see

A layer passes on what it saw, so a second layer sees further than its window. Each layer's mask is
followed backwards from the last token of the longest document the trainer allows, with the windows
of each stage: which tokens can have had a part in it?
"""

import torch

from fba_lab import measure
from snippets import train_gpt

LAB = dict(
    block="attention-window",
    devices=["cpu"],
    main=False,
    limit_s=120,
    cache="shared",
    data=[],
    raises=None,
    heavy=False,
)


def reach(windows: list[int], tokens: int, device: torch.device) -> list[int]:
    """Tokens that can reach the last one after the top layer, the top two, and so on."""
    cu_seqlens_S = torch.tensor([0, tokens], dtype=torch.int32, device=device)
    masks = {w: train_gpt.attention_mask(cu_seqlens_S, tokens, w) for w in set(windows)}
    reached_T = torch.zeros(tokens, dtype=torch.bool, device=device)
    reached_T[-1] = True
    counts = []
    for window in reversed(windows):
        reached_T = masks[window][reached_T].any(dim=0)  # all that one of them sees
        counts.append(int(reached_T.sum()))
    return counts


def main() -> None:
    device = torch.device(measure.device())
    config = train_gpt.PRESETS["speedrun"]
    plan = train_gpt.layer_plan(config)
    rows = []
    for number, stage in enumerate(config.stages, 1):
        windows = [layer.tokens(stage.windows) for layer in plan]
        counts = reach(windows, config.max_document, device)
        whole = next((n for n, count in enumerate(counts, 1) if count == config.max_document), None)
        rows.append([number, *stage.windows, counts[0], counts[1], counts[-1], whole])
        measure.series(
            f"stage_{number}",
            list(range(1, config.layers + 1)),
            counts,
            x_label="layers, from the top down",
            y_label="tokens that can reach the last one",
        )
    measure.metric("first_stage_reach", rows[0][5], "tokens")
    measure.metric("longest_document", config.max_document, "tokens")
    columns = ["stage", "short", "long", "top layer", "two layers", "all layers", "whole after"]
    measure.table("reach", columns, rows)
    first = [layer.tokens(config.stages[0].windows) for layer in plan]
    by_hand = 1 + sum(window - 1 for window in first)
    measure.metric("first_stage_by_hand", by_hand, "tokens")
    print(f"stage 1, layer by layer: {first}")
    print(f"1 + the sum of (window - 1) = {by_hand}; the document has {config.max_document}")


if __name__ == "__main__":
    main()
