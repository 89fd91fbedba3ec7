"""The fast kernel on a CPU

Both functions of the block, called with the same CPU tensors. The mask works; the kernel has no CPU
version.
"""

import torch

from fba_lab import measure
from snippets import train_gpt

LAB = dict(
    block="attention-window",
    devices=["cpu"],
    main=False,
    limit_s=60,
    cache="shared",
    data=[],
    raises=("NotImplementedError", "aten::_flash_attention_forward"),
    heavy=False,
)
TOKENS, HEADS, HEAD_SIZE = 256, 2, 64


def main() -> None:
    device = torch.device(measure.device())
    x_THK = torch.randn(TOKENS, HEADS, HEAD_SIZE, device=device, dtype=torch.bfloat16)
    cu_seqlens_S = torch.tensor([0, 100, TOKENS], device=device, dtype=torch.int32)
    for attend in (train_gpt.reference_attention, train_gpt.varlen_attention):
        print(f"{attend.__name__} on {device.type} ...")
        y_THK = attend(x_THK, x_THK, x_THK, cu_seqlens_S, 64, TOKENS, 0.1)
        print(f"  {tuple(y_THK.shape)}, {y_THK.dtype}")


if __name__ == "__main__":
    main()
