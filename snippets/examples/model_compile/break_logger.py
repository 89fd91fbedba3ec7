"""A log line inside forward

A logger is refused like `print`, even when its level means that nothing would be written.
"""

import logging

import torch
from torch import Tensor

from fba_lab import measure
from snippets import train_gpt

LAB = dict(
    block="model-compile",
    devices=["cpu"],
    main=False,
    limit_s=120,
    cache="shared",
    data=["sotu"],
    raises=("torch._dynamo.exc.Unsupported", "logging.Logger method not supported"),
    heavy=False,
)
logger = logging.getLogger("model")


class Logs(train_gpt.GPT):
    def embed(self, inputs_T: Tensor) -> Tensor:
        x_TD = super().embed(inputs_T)
        logger.info("embedded %s", x_TD.shape)
        return x_TD


def main() -> None:
    device = torch.device(measure.device())
    config = train_gpt.PRESETS["tiny"]
    files = train_gpt.shard_files(measure.data("sotu"), "train")
    batch = next(train_gpt.data_stream(files, config, device))
    model = train_gpt.build_model(config, device, cls=Logs)
    model = train_gpt.compile_model(model, config)
    print("compile_model returned without complaint; now the first call")
    model(*batch, config.stages[0].windows)


if __name__ == "__main__":
    main()
