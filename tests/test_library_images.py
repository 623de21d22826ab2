"""Shared libraries of other systems, looked at before they are loaded: kind, machine, length."""

from __future__ import annotations

import platform
import struct
import sys

import numpy as np
import pytest
from c_libraries import built

from litedelegate.runtime.capi.binary import LibraryError, check_library

ARM, INTEL = 0x0100000C, 0x01000007


def macho(cpu: int = ARM, kind: int = 6, segment: int = 64, commands: int = 1) -> bytes:
    """A 64-bit Mach-O image with one segment of that many bytes, from the file's start."""
    load = struct.pack("<2I16s4Q4I", 0x19, 72, b"__TEXT", 0, 4096, 0, segment, 5, 5, 0, 0)
    head = struct.pack("<8I", 0xFEEDFACF, cpu, 0, kind, commands, len(load), 0, 0)
    return (head + load).ljust(128, b"\0")


def fat(*images: bytes) -> bytes:
    """A file with an image for each of several machines."""
    at, head, body = 8 + 20 * len(images), struct.pack(">2I", 0xCAFEBABE, len(images)), b""
    for image in images:
        (cpu,) = struct.unpack_from("<I", image, 4)
        head += struct.pack(">5I", cpu, 0, at + len(body), len(image), 0)
        body += image
    return head + body


def pe(machine: int = 0x8664, flags: int = 0x2022, section: int = 32, magic: int = 0x20B) -> bytes:
    """A PE image of one section of that many bytes, at byte 400."""
    head = b"MZ".ljust(60, b"\0") + struct.pack("<I", 64)
    coff = b"PE\0\0" + struct.pack("<2H3I2H", machine, 1, 0, 0, 0, 112, flags)
    optional = struct.pack("<H", magic).ljust(112, b"\0")
    row = struct.pack("<8s6I2HI", b".text", 32, 4096, section, 400, 0, 0, 0, 0, 0)
    return (head + coff + optional + row).ljust(432, b"\0")


def on(monkeypatch: pytest.MonkeyPatch, system: str, machine: str) -> None:
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(platform, "machine", lambda: machine)


def test_macho(monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, "darwin", "arm64")
    assert check_library(macho(), "it") is None  # its functions are not listed
    check_library(macho(kind=8), "it")  # a bundle
    for data, text in (
        (macho(INTEL), "it is a library for x86_64; this machine is aarch64"),
        (macho(99), "for Mach-O machine 99"),
        (macho(kind=2), "a Mach-O file of type 2"),
        (macho(segment=129), "a segment reaches past the end"),
        (macho(commands=2), "load command"),
        (macho()[:80], "its load commands reach past the end"),
        (built("examples/atan_c/atan.c").read_bytes(), "in the format ELF; this system loads Mac"),
        (pe(), "in the format PE; this system loads Mach-O"),
    ):
        with pytest.raises(LibraryError, match=text):
            check_library(data, "it")


def test_macho_for_several_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, "darwin", "x86_64")
    check_library(fat(macho(ARM), macho(INTEL)), "it")
    for data, text in (
        (fat(macho(ARM)), "it is a library for arm64; this machine is x86_64"),
        (fat(macho(ARM), macho(INTEL))[:-1], "image 1 is cut short or none"),
        (fat(macho(ARM), macho(INTEL, kind=2)), "of type 2"),
        (b"\xca\xfe\xba\xbe\0\0\0\x3d" + bytes(100), "cut short|image 0 is"),  # Java's mark, too
        (b"\xca\xfe\xba\xbe\0\0\1\0" + bytes(100), "a fat file of 256 images"),
    ):
        with pytest.raises(LibraryError, match=text):
            check_library(data, "it")


def test_pe(monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, "win32", "AMD64")
    assert check_library(pe(), "it") is None
    for data, text in (
        (pe(0xAA64), "it is a library for arm64; this machine is x86_64"),
        (pe(flags=0x22), "it is a PE file, but no DLL"),
        (pe(section=33), "a section reaches past the end"),
        (pe(magic=7), "its optional header has the number 0x7"),
        (pe()[:180], "cut short"),
        (macho(), "in the format Mach-O; this system loads PE"),
    ):
        with pytest.raises(LibraryError, match=text):
            check_library(data, "it")


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_damaged_ones_give_one_kind_of_exception(
    system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(monkeypatch, system, "x86_64")
    good = fat(macho(ARM), macho(INTEL)) if system == "darwin" else pe()
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(5000):
        data = bytearray(good)
        for _ in range(int(rng.integers(1, 4))):
            at = int(rng.integers(len(data)))
            data[at : at + 4] = bytes([int(rng.choice([0, 1, 0x7F, 0xFF]))]) * 4
        cut = int(rng.integers(len(data))) if rng.integers(10) == 0 else len(data)
        try:
            check_library(bytes(data[:cut]), "it")
        except LibraryError:
            refused += 1
    assert refused > 1000


# -- the tables of ELF


def section(data: bytes, wanted: str) -> tuple[int, int]:
    """Offset and size of a section of a 64-bit ELF file."""
    (at,) = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<3H", data, 58)
    rows = [struct.unpack_from("<IIQQQQ", data, at + i * size) for i in range(count)]
    for name, _, _, _, offset, length in rows:
        start = rows[names][4] + name
        if data[start : data.index(b"\0", start)].decode() == wanted:
            return offset, length
    pytest.skip(f"this linker makes no {wanted}")


linux = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="changes an ELF file"
)


@linux
@pytest.mark.parametrize(
    ("where", "at", "layout", "value", "text"),
    [
        (".gnu.hash", 0, "<I", 0, "its hash table has 0 and"),
        (".gnu.hash", 8, "<I", 3, "its hash table has .* and 3 places"),
        (".gnu.version", 2, "<H", 99, "a symbol has a version that is not there"),
        (".gnu.version_r", 4, "<I", 1, "versions of a library that it does not need"),
        (".dynsym", 24, "<I", 1 << 30, "the name of a symbol lies outside"),
        (".rela.dyn", 0, "<Q", 64, "a relocation writes where nothing is to be written"),
        (".rela.dyn", 8, "<Q", 99 << 32 | 8, "a relocation is for a symbol that is not there"),
        (".rela.dyn", 8, "<Q", 6, "its relocations are out of order"),
        (".rela.dyn", 16, "<Q", 1 << 40, "a relocation leads outside of what is loaded"),
        (".rela.dyn", 16, "<Q", 64, "a function that is called first or last is none"),
    ],
)
def test_what_the_loader_would_follow(
    where: str, at: int, layout: str, value: int, text: str
) -> None:
    data = bytearray(built("tests/c_ops/classic.c").read_bytes())
    offset, _ = section(bytes(data), where)
    struct.pack_into(layout, data, offset + at, value)
    with pytest.raises(LibraryError, match=text):
        check_library(bytes(data), "it")


@linux
def test_functions_are_listed() -> None:
    found = check_library(built("tests/c_ops/classic.c").read_bytes(), "it")
    assert found is not None
    assert {"Register_Scale", "Register_EXTERNAL"} <= set(found) and "malloc" not in found
