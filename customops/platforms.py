"""Platforms by name: the triples that builds are made for and that bundles carry."""

from __future__ import annotations

import platform

# what `op build --target` takes, and zig's names of them
TARGETS = {
    "x86_64-linux-gnu": "x86_64-linux-gnu.2.17",
    "aarch64-linux-gnu": "aarch64-linux-gnu.2.17",
    "x86_64-macos": "x86_64-macos",
    "aarch64-macos": "aarch64-macos",
    "x86_64-windows-gnu": "x86_64-windows-gnu",
    "aarch64-windows-gnu": "aarch64-windows-gnu",
}
_ENDINGS = {"linux": "linux-gnu", "macos": "macos", "windows": "windows-gnu"}


def triple(name: str) -> str:
    """The triple that is meant by it; "linux-x86_64" is another spelling of "x86_64-linux-gnu"."""
    system, _, machine = name.partition("-")
    ending = _ENDINGS.get(system)
    return f"{machine}-{ending}" if ending else name


def this_platform() -> str:
    """The triple that op libraries for this machine carry, such as "x86_64-linux-gnu"."""
    machine = platform.machine().lower()
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine) or "unknown"
    system = {"Darwin": "macos", "Windows": "windows"}.get(
        platform.system(), platform.system().lower() or "unknown"
    )
    if system == "linux":
        return f"{machine}-linux-{'gnu' if platform.libc_ver()[0] == 'glibc' else 'musl'}"
    return f"{machine}-windows-gnu" if system == "windows" else f"{machine}-{system}"
