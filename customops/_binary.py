"""Looks at a shared library's bytes before the system's loader does, which crashes on broken ones.

ELF is checked as far as the loader follows it blindly: segments, the dynamic section and the
tables that it names. Mach-O and PE are checked for kind and machine.
"""

from __future__ import annotations

import platform
import struct
import sys
from dataclasses import dataclass

ENTRY = "litedelegate_op_library"
ABI_SYMBOL = "litedelegate_op_abi"


class OpLibraryError(ValueError):
    """A library of custom ops that cannot be loaded; the text says which and why."""


_ELF_MACHINES = {
    3: "x86", 8: "mips", 20: "powerpc", 21: "ppc64", 22: "s390x", 40: "arm", 62: "x86_64",
    183: "aarch64", 243: "riscv", 258: "loongarch",
}  # fmt: skip
_MACHO_MACHINES = {7: "x86", 0x01000007: "x86_64", 12: "arm", 0x0100000C: "arm64"}
_PE_MACHINES = {0x14C: "x86", 0x8664: "x86_64", 0x1C0: "arm", 0xAA64: "arm64"}
_ALIASES = {"amd64": "x86_64", "arm64": "aarch64", "i386": "x86", "i686": "x86"}
_PT_TLS, _MAX_TLS = 7, 1 << 20
_PT_LOAD, _PT_DYNAMIC, _PT_STACK, _PT_RELRO = 1, 2, 0x6474E551, 0x6474E552
_SHT_NOBITS, _SHT_DYNSYM = 8, 11
_SHF_WRITE, _SHF_ALLOC, _SHF_EXEC, _SHF_TLS = 1, 2, 4, 0x400
_PF_EXEC, _PF_WRITE, _PF_READ = 1, 2, 4
_ET_DYN = 3
# dynamic entries that hold an address: of the table, and of its size
_DT_SIZES = {5: 10, 7: 8, 17: 18, 23: 2, 25: 27, 26: 28, 36: 35}
_DT_ADDRESSES = frozenset({4, 5, 6, 7, 12, 13, 17, 23, 25, 26, 36, 0x6FFFFEF5, 0x6FFFFFF0})
_MAX_PARTS = 1024


def machine_name(name: str) -> str:
    name = name.lower()
    if name.startswith(("armv7", "armv6")):
        return "arm"
    return "riscv" if name.startswith("riscv") else _ALIASES.get(name, name)


def check_library(data: bytes, what: str) -> None:
    """OpLibraryError unless these are the bytes of a shared library for this machine."""
    kind, machine = _identify(data, what)
    wanted = {"linux": "ELF", "darwin": "Mach-O", "win32": "PE"}.get(sys.platform, "ELF")
    if kind != wanted:
        raise OpLibraryError(
            f"{what} is a library in the format {kind}; this system loads {wanted}"
        )
    here = machine_name(platform.machine())
    if machine is not None and machine_name(machine) != here:
        raise OpLibraryError(f"{what} is a library for {machine}; this machine is {here}")
    if kind == "ELF":
        _Elf(data, what).check()


def _identify(data: bytes, what: str) -> tuple[str, str | None]:
    """Format, and machine where there is one."""
    if len(data) < 64:
        raise OpLibraryError(f"{what} is no shared library: it has {len(data)} bytes")
    if data[:4] == b"\x7fELF":
        if data[5] != 1 or data[4] not in (1, 2):
            raise OpLibraryError(f"{what} is a big-endian or unknown kind of ELF file")
        number = int.from_bytes(data[18:20], "little")
        return "ELF", _ELF_MACHINES.get(number, f"ELF machine {number}")
    magic = int.from_bytes(data[:4], "little")
    if magic in (0xFEEDFACE, 0xFEEDFACF):
        number = int.from_bytes(data[4:8], "little")
        return "Mach-O", _MACHO_MACHINES.get(number, f"Mach-O machine {number}")
    if data[:4] == b"\xca\xfe\xba\xbe":
        return "Mach-O", None  # several machines in one file: the loader chooses
    if data[:2] == b"MZ":
        at = int.from_bytes(data[60:64], "little")
        if data[at : at + 4] == b"PE\0\0" and len(data) >= at + 24:
            number = int.from_bytes(data[at + 4 : at + 6], "little")
            return "PE", _PE_MACHINES.get(number, f"PE machine {number}")
    raise OpLibraryError(
        f"{what} is no shared library: it begins with {data[:4].hex(' ')}, which is neither ELF, "
        "Mach-O nor PE"
    )


@dataclass(frozen=True)
class _Segment:
    kind: int
    flags: int
    offset: int
    address: int
    file_size: int
    memory_size: int
    align: int


class _Elf:
    def __init__(self, data: bytes, what: str) -> None:
        self.data = data
        self.what = what
        self.wide = data[4] == 2
        bits = struct.calcsize("P") * 8
        if self.wide != (bits == 64):
            raise self.broken(f"it is for {64 if self.wide else 32} bits, this Python for {bits}")

    def broken(self, text: str) -> OpLibraryError:
        return OpLibraryError(f"{self.what} is no library that can be loaded: {text}")

    def take(self, layout: str, offset: int) -> tuple[int, ...]:
        if offset < 0 or offset + struct.calcsize(layout) > len(self.data):
            raise self.broken(f"it ends before byte {offset + struct.calcsize(layout)}")
        return struct.unpack_from(layout, self.data, offset)

    def check(self) -> None:
        head = self.take("<HHIQQQIHHHHHH" if self.wide else "<HHIIIIIHHHHHH", 16)
        kind, _, version, _, at, sections, _, head_size, size, count, *section = head
        if (kind, version, self.data[6]) != (_ET_DYN, 1, 1):
            raise self.broken(f"it is an ELF file of type {kind}, version {version}")
        layout = "<IIQQQQQQ" if self.wide else "<IIIIIIII"
        if size != struct.calcsize(layout) or head_size != (64 if self.wide else 52):
            raise self.broken(f"its headers have {head_size} and {size} bytes")
        if not 0 < count <= _MAX_PARTS:
            raise self.broken(f"it has {count} program headers")
        segments = [self.segment(self.take(layout, at + i * size)) for i in range(count)]
        self.loads = [s for s in segments if s.kind == _PT_LOAD]
        self.check_loads(at + count * size)
        dynamic = [s for s in segments if s.kind == _PT_DYNAMIC]
        if len(dynamic) != 1:
            raise self.broken(f"it has {len(dynamic)} dynamic sections")
        for s in segments:
            if s.kind not in (0, _PT_LOAD, _PT_STACK) and s.memory_size:
                self.check_part(s)
        found = self.check_dynamic(dynamic[0])
        self.check_sections(sections, section, found)

    def segment(self, v: tuple[int, ...]) -> _Segment:
        if self.wide:
            kind, flags, offset, address, _, file_size, memory_size, align = v
        else:
            kind, offset, address, _, file_size, memory_size, flags, align = v
        return _Segment(kind, flags, offset, address, file_size, memory_size, align)

    def check_loads(self, headers_end: int) -> None:
        if not self.loads:
            raise self.broken("it has nothing to load")
        end = 0
        for s in self.loads:
            if s.offset + s.file_size > len(self.data) or s.file_size > s.memory_size:
                raise self.broken("a segment reaches past the end of the file")
            if s.align < 4096 or s.align & (s.align - 1) or (s.offset - s.address) % s.align:
                raise self.broken("a segment is not aligned")
            if s.address < end or s.address + s.memory_size > 1 << 40 or s.flags & ~7:
                raise self.broken("its segments overlap or lie too far apart")
            end = s.address + s.memory_size
        if end > (1 << 31) + 64 * len(self.data):
            raise self.broken(f"it asks for {end} bytes of memory")
        if headers_end > len(self.data):
            raise self.broken("its program headers reach past the end of the file")

    def check_part(self, s: _Segment) -> None:
        """A segment that tells the loader of something within what is loaded."""
        what = f"segment of kind {s.kind:#x}"
        size = s.memory_size
        if s.kind == _PT_TLS:  # what is beyond the file's part is made for each thread
            if size > _MAX_TLS or s.align & (s.align - 1):
                raise self.broken(f"it asks for {size} bytes for each thread")
            size = s.file_size
        at = self.place(s.address, size, what) if size else s.offset
        if s.file_size > s.memory_size or (s.file_size and at != s.offset):
            raise self.broken(f"its {what} lies elsewhere in memory than in the file")
        if s.kind == _PT_RELRO and (s.address + s.memory_size) % 4096:
            raise self.broken("what becomes read-only does not end with a page")

    def place(self, address: int, size: int, what: str, held: bool = False) -> int:
        """Where in the file an address stands."""
        for s in self.loads:
            room = s.file_size if held else s.memory_size
            if s.address <= address and address + size <= s.address + room:
                return s.offset + address - s.address
        raise self.broken(f"its {what} lies outside of what is loaded")

    def check_dynamic(self, segment: _Segment) -> dict[int, int]:
        layout = "<qQ" if self.wide else "<iI"
        step = struct.calcsize(layout)
        start = self.place(segment.address, segment.file_size, "dynamic section", held=True)
        found: dict[int, int] = {}
        for offset in range(start, start + segment.file_size - step + 1, step):
            tag, value = self.take(layout, offset)
            if tag == 0:
                break
            found[tag & 0xFFFFFFFF] = value
        else:
            raise self.broken("its dynamic section has no end")
        for tag in found.keys() & _DT_ADDRESSES:
            size = found.get(_DT_SIZES.get(tag, -1), 1)
            self.place(found[tag], max(size, 1), f"dynamic table {tag}")
        if not {5, 6, 10} <= found.keys() or not found.keys() & {4, 0x6FFFFEF5}:
            raise self.broken("it has no table of symbols")
        strings = self.place(found[5], found[10], "table of names", held=True)
        for tag in (1, 14, 15, 29):  # names of libraries and of paths
            if found.get(tag, 0) >= found[10]:
                raise self.broken("a name lies outside of the table of names")
        if not found[10] or self.data[strings + found[10] - 1]:
            raise self.broken("its table of names has no end")
        return found

    def check_sections(self, at: int, header: list[int], dynamic: dict[int, int]) -> None:
        """Where there are section headers: that they tell the same as the program headers, and that
        the entry point is there.
        """
        size, count, _ = header
        if not at and not count:
            return
        layout = "<IIQQQQIIQQ" if self.wide else "<IIIIIIIIII"
        if size != struct.calcsize(layout):
            raise self.broken(f"its section headers have {size} bytes")
        sections = [self.take(layout, at + i * size) for i in range(count)]
        starts = {s[3] for s in sections if s[2] & _SHF_ALLOC}
        for tag in dynamic.keys() & (_DT_ADDRESSES - {12, 13}):  # these are functions
            if dynamic[tag] not in starts:
                raise self.broken(f"dynamic table {tag} is no section")
        for _, kind, flags, address, offset, length, link, *_ in sections:
            if not flags & _SHF_ALLOC or not length or (kind == _SHT_NOBITS and flags & _SHF_TLS):
                continue
            held = kind != _SHT_NOBITS
            if self.place(address, length, "section", held) != offset and held:
                raise self.broken("a section lies elsewhere in memory than in the file")
            self.check_rights(flags, address)
            if kind != _SHT_DYNSYM:
                continue
            names = sections[link] if link < count else None
            if names is None or (address, names[3]) != (dynamic[6], dynamic[5]):
                raise self.broken("its section headers are wrong")
            if ENTRY.encode() + b"\0" not in self.data[names[4] : names[4] + names[5]]:
                raise OpLibraryError(no_entry(self.what))

    def check_rights(self, flags: int, address: int) -> None:
        (segment,) = (s for s in self.loads if s.address <= address < s.address + s.memory_size)
        wanted = _PF_READ
        wanted |= _PF_WRITE if flags & _SHF_WRITE else 0
        wanted |= _PF_EXEC if flags & _SHF_EXEC else 0
        if wanted & ~segment.flags:
            raise self.broken("a segment lacks the rights that its sections need")


def no_entry(what: str) -> str:
    return (
        f"{what} is a shared library, but not of custom ops: it has no {ENTRY}, which "
        "LITEDELEGATE_OP_LIBRARY(...) in litedelegate/tflite_custom_op.h defines"
    )
