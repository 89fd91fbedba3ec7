"""The kernel and the mask, compared

Both functions in bf16 on sizes that fit no block of the kernel, against the mask in fp32. Then one
argument is made too small: the length of the longest document.
"""

import torch
from torch import Tensor

from fba_lab import measure
from snippets import train_gpt

LAB = dict(
    block="attention-window",
    devices=["h200"],
    main=False,
    limit_s=120,
    cache="shared",
    data=[],
    raises=None,
    heavy=False,
)
HEADS, HEAD_SIZE, SCALE = 6, 128, 0.1
CASES = (  # tokens, where documents start, window
    (1, [0], 1),
    (129, [0, 1, 128], 1),
    (1000, [0, 333, 334, 777], 7),
    (1000, [0, 333, 334, 777], 128),
    (1000, [0], 5000),
    (4099, [0, 17, 2000], 384),
)


def inputs(tokens: int, starts: list[int], device: torch.device) -> tuple[Tensor, ...]:
    """q, k and v as the model makes them, q and k normalised, and the starts with unused slots."""
    shape = (tokens, HEADS, HEAD_SIZE)
    q, k, v = (torch.randn(shape, device=device, dtype=torch.bfloat16) for _ in range(3))
    slots = starts + [tokens] * (8 - len(starts))
    cu_seqlens_S = torch.tensor(slots, dtype=torch.int32, device=device)
    return train_gpt.rms_norm(q), train_gpt.rms_norm(k), v, cu_seqlens_S


def main() -> None:
    device = torch.device(measure.device())
    torch.manual_seed(0)
    rows, worst = [], {"kernel": 0.0, "mask": 0.0}
    for tokens, starts, window in CASES:
        q, k, v, cu_seqlens_S = inputs(tokens, starts, device)
        arguments = (cu_seqlens_S, window, tokens, SCALE)
        exact = train_gpt.reference_attention(q.float(), k.float(), v.float(), *arguments)
        found = {
            "kernel": train_gpt.varlen_attention(q, k, v, *arguments),
            "mask": train_gpt.reference_attention(q, k, v, *arguments),
        }
        row: list[object] = [tokens, len(starts), window]
        for name, y_THK in found.items():
            off = (y_THK.float() - exact).abs()
            worst[name] = max(worst[name], off.max().item())
            row += [round(off.max().item(), 5), round(off.mean().item(), 7)]
        rows.append(row)
    columns = ["tokens", "documents", "window", "kernel: largest", "kernel: mean", "mask: largest",
        "mask: mean"]  # fmt: skip
    measure.table("differences", columns, rows)
    for name, value in worst.items():
        measure.metric(f"{name}_largest_difference", value, "")

    tokens = 1024
    q, k, v, cu_seqlens_S = inputs(tokens, [0], device)
    right = train_gpt.varlen_attention(q, k, v, cu_seqlens_S, 128, tokens, SCALE)
    rows = []
    for longest in (1024, 512, 256):
        y_THK = train_gpt.varlen_attention(q, k, v, cu_seqlens_S, 128, longest, SCALE)
        wrong_T = (y_THK != right).flatten(1).any(dim=1)
        first = int(wrong_T.nonzero()[0]) if wrong_T.any() else None
        rows.append([longest, int(wrong_T.sum()), first])
        measure.metric(f"wrong_rows_{longest}", int(wrong_T.sum()), "rows")
    measure.table("max_document", ["max_document", "rows that differ", "first of them"], rows)


if __name__ == "__main__":
    main()
