"""What a cubin says of its kernels: the sizes of their parameters, and local memory (spills).

A cubin is an ELF file. Section `.nv.info.<kernel>` has one EIATTR_KPARAM_INFO for each parameter,
`.nv.info` the EIATTR_FRAME_SIZE of each kernel by its number in the symbol table; `cuobjdump -elf`
prints both.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

_KPARAM_INFO, _FRAME_SIZE = 0x17, 0x11
_SIZED = 4  # the format of attributes that carry a block of bytes


@dataclass
class KernelInfo:
    parameters: list[int] = field(default_factory=list)  # bytes, in order
    local: int = 0  # bytes of local memory for each thread


def kernels(cubin: bytes) -> dict[str, KernelInfo]:
    assert cubin[:4] == b"\x7fELF" and cubin[4] == 2, "no 64-bit ELF file"
    (table,) = struct.unpack_from("<Q", cubin, 40)
    size, count, names_at = struct.unpack_from("<HHH", cubin, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", cubin, table + i * size) for i in range(count)]
    names = _content(cubin, headers[names_at])
    sections = {_text(names, h[0]): h for h in headers}
    symbols, strings = (_content(cubin, sections[n]) for n in (".symtab", ".strtab"))
    found: dict[str, KernelInfo] = {}
    for name, header in sections.items():
        if name.startswith(".nv.info."):
            info = found[name.removeprefix(".nv.info.")] = KernelInfo()
            given = {}
            for kind, value in _attributes(_content(cubin, header)):
                if kind == _KPARAM_INFO:
                    _, ordinal, _, bits = struct.unpack("<IHHI", value)
                    given[ordinal] = bits >> 18
            info.parameters = [given[i] for i in sorted(given)]
    for kind, value in _attributes(_content(cubin, sections[".nv.info"])):
        if kind == _FRAME_SIZE:
            symbol, local = struct.unpack("<II", value)
            (name_at,) = struct.unpack_from("<I", symbols, 24 * symbol)
            if _text(strings, name_at) in found:
                found[_text(strings, name_at)].local = local
    return found


def _content(cubin: bytes, header: tuple[int, ...]) -> bytes:
    return cubin[header[4] : header[4] + header[5]]


def _text(table: bytes, at: int) -> str:
    return table[at : table.index(b"\0", at)].decode()


def _attributes(section: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(section):
        layout, kind, size = struct.unpack_from("<BBH", section, at)
        at += 4
        if layout == _SIZED:
            yield kind, section[at : at + size]
            at += size
