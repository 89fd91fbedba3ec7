"""The machine that runs: which device it is, how records call it, and what is in it."""

from __future__ import annotations

import functools
import importlib.metadata
import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

CPU = "cpu"
REFERENCE_DEVICES = ("cpu", "h200")
"""Devices whose records the repository promises to have."""

_MAKERS = re.compile(r"\b(nvidia|geforce|tesla|quadro|amd|radeon|instinct)\b")
_FORM = re.compile(r"[ -](sxm|pcie|nvl|hbm|\d+ ?gb|mig|oam)\S*.*")


class NoDevice(ValueError):
    """A device that was asked for and is not here; the message is one line."""


def slug_of(name: str) -> str:
    """Return what records call an accelerator: "h200" for "NVIDIA H200"."""
    short = _FORM.sub("", _MAKERS.sub("", name.lower()).strip())
    return re.sub(r"[^a-z0-9]+", "-", short).strip("-") or "gpu"


def slug() -> str:
    """Return the device of this machine: its first visible GPU, else "cpu"."""
    names = gpus()
    return slug_of(names[0]) if names else CPU


def gpus() -> list[str]:
    """Return the names of the GPUs that nvidia-smi lists and CUDA_VISIBLE_DEVICES shows."""
    names = [line.strip() for line in _smi("name").splitlines() if line.strip()]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return names
    return names[: len([one for one in visible.split(",") if one.strip() not in ("", "-1")])]


def count(device: str) -> int:
    """Return how many GPUs a device has: 2 for "h200-x2", 0 for "cpu"."""
    if device == CPU:
        return 0
    many = re.search(r"-x(\d+)$", device)
    return int(many[1]) if many else 1


def kind(device: str) -> str:
    """Return "cpu" or "cuda", as examples see it."""
    return CPU if device == CPU else "cuda"


def require(device: str) -> None:
    """Raise NoDevice unless this machine has the device."""
    if device == CPU:
        return
    names = gpus()
    here = [slug_of(name) for name in names]
    if not names:
        raise NoDevice(f"no device {device!r}: nvidia-smi finds no GPU here; use --device cpu")
    base = re.sub(r"-x\d+$", "", device)
    if count(device) < 1 or here[: count(device)] != [base] * count(device):
        raise NoDevice(f"no device {device!r}: this machine has {', '.join(here)}")


def visible(device: str) -> str:
    """Return the CUDA_VISIBLE_DEVICES under which a program sees this device and no other."""
    known = os.environ.get("CUDA_VISIBLE_DEVICES")
    ids = known.split(",") if known else [str(number) for number in range(count(device))]
    return ",".join(ids[: count(device)])


def for_device(devices: tuple[str, ...], device: str) -> bool:
    """Whether an example with these devices is run on this one.

    One GPU of any name can run what asks for another; several GPUs only what asks for them.
    """
    if device in devices:
        return True
    return count(device) == 1 and any(count(one) == 1 for one in devices)


@functools.cache
def describe(device: str) -> dict[str, object]:
    """Return the part of a record's provenance that the machine decides."""
    found: dict[str, object] = {
        "device_name": _cpu_name(),
        "device_count": os.cpu_count() or 1,
        "driver": None,
        "cuda": None,
        "torch": _version("torch"),
        "triton": _version("triton"),
        "python": platform.python_version(),
        "os": _os_name(),
    }
    if device != CPU:
        found["device_name"] = (gpus() or ["unknown GPU"])[0]
        found["device_count"] = count(device)
        found["driver"] = (_smi("driver_version").split() or [None])[0]
        found["cuda"] = _cuda_version()
    return found


def _smi(field: str) -> str:
    command = ["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cuda_version() -> str | None:
    """Return the CUDA that torch was built for, asked of a child: we must not load torch."""
    code = "import json, torch; print(json.dumps(torch.version.cuda))"
    command = [sys.executable, "-c", code]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        return json.loads(done.stdout) if done.returncode == 0 else None
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None


def _cpu_name() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.machine()
    match = re.search(r"model name\s*:\s*(.+)", text)
    return match[1].strip() if match else platform.machine()


def _os_name() -> str:
    # The distribution, not the kernel: kernel releases can carry a builder's own name.
    try:
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        name = f"{platform.system()} {platform.mac_ver()[0]}".strip()
    return f"{name} {platform.machine()}"
