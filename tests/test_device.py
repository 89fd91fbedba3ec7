from __future__ import annotations

from pathlib import Path

import pytest

from fba_lab import device

SMI = """#!/bin/sh
case "$1" in
  --query-gpu=name) printf 'NVIDIA H200\\nNVIDIA H200\\n' ;;
  --query-gpu=driver_version) printf '580.1\\n580.1\\n' ;;
esac
"""


@pytest.fixture
def two_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(SMI)
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.fixture
def no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("NVIDIA H200", "h200"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("NVIDIA H100 PCIe", "h100"),
        ("NVIDIA GH200 480GB", "gh200"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("Tesla V100-SXM2-16GB", "v100"),
        ("NVIDIA L40S", "l40s"),
    ],
)
def test_slugs(name: str, slug: str) -> None:
    assert device.slug_of(name) == slug


def test_machine_with_two_gpus(two_gpus: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert device.slug() == "h200"
    device.require("h200")
    device.require("h200-x2")
    assert [device.visible(one) for one in ("cpu", "h200", "h200-x2")] == ["", "0", "0,1"]
    with pytest.raises(device.NoDevice, match="this machine has h200, h200"):
        device.require("h200-x4")
    with pytest.raises(device.NoDevice, match="no device 'a100'"):
        device.require("a100")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5")
    assert (device.visible("h200"), device.gpus()) == ("5", ["NVIDIA H200"])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert device.slug() == "cpu"


def test_machine_without_gpu(no_gpu: None) -> None:
    assert (device.slug(), device.gpus()) == ("cpu", [])
    device.require("cpu")
    with pytest.raises(device.NoDevice, match="finds no GPU here; use --device cpu"):
        device.require("h200")


def test_description(two_gpus: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "_cuda_version", lambda: "13.0")
    device.describe.cache_clear()
    found = device.describe("h200")
    device.describe.cache_clear()
    assert (found["device_name"], found["device_count"]) == ("NVIDIA H200", 1)
    assert (found["driver"], found["cuda"]) == ("580.1", "13.0")
    found = device.describe("cpu")
    assert (found["driver"], found["cuda"]) == (None, None)
    assert isinstance(found["device_name"], str) and found["device_count"] >= 1


def test_which_examples_a_device_runs() -> None:
    assert device.for_device(("cpu", "h200"), "cpu")
    assert device.for_device(("cpu", "h200"), "h200")
    assert device.for_device(("h200",), "a100")
    assert not device.for_device(("cpu",), "h200")
    assert not device.for_device(("h200",), "cpu")
    assert not device.for_device(("h200",), "h200-x2")
    assert device.for_device(("h200-x2",), "h200-x2")
    assert not device.for_device(("h200-x2",), "h200")


def test_no_gpus_is_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "gpus", lambda: ["NVIDIA H200"])
    for name in ("", "h200-x0"):
        with pytest.raises(device.NoDevice):
            device.require(name)
