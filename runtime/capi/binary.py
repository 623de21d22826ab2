"""Looks at a shared library's bytes before the system's loader does, which crashes on broken ones.

ELF is checked as far as the loader follows it blindly: segments, the dynamic section and the
tables that it names. Mach-O and PE are checked for kind, machine and length.
"""

from __future__ import annotations

import platform
import struct
import sys

from .elf_tables import Segment, Tables, entries


class LibraryError(ValueError):
    """A shared library that cannot be loaded; the text says which and why."""


_ELF_MACHINES = {
    3: "x86", 8: "mips", 20: "powerpc", 21: "ppc64", 22: "s390x", 40: "arm", 62: "x86_64",
    183: "aarch64", 243: "riscv", 258: "loongarch",
}  # fmt: skip
_MACHO_MACHINES = {7: "x86", 0x01000007: "x86_64", 12: "arm", 0x0100000C: "arm64"}
_MACHO = (0xFEEDFACE, 0xFEEDFACF)
_FAT = b"\xca\xfe\xba\xbe"
_MH_DYLIB, _MH_BUNDLE = 6, 8
_LC_SEGMENT, _LC_SEGMENT_64 = 1, 0x19
_PE_DLL = 0x2000
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


def check_library(
    data: bytes, what: str, error: type[LibraryError] = LibraryError
) -> list[str] | None:
    """`error` unless these are the bytes of a shared library for this machine.

    Names of the functions that it offers; None where they are not listed as ELF lists them.
    """
    kind = _identify(data, what, error)
    wanted = {"linux": "ELF", "darwin": "Mach-O", "win32": "PE"}.get(sys.platform, "ELF")
    if kind != wanted:
        raise error(f"{what} is a library in the format {kind}; this system loads {wanted}")
    try:
        machines = _CHECKS[kind](data, what, error)
    except struct.error as e:
        raise error(f"{what} is no library that can be loaded: it is cut short") from e
    here = machine_name(platform.machine())
    if here not in map(machine_name, machines):
        raise error(f"{what} is a library for {', '.join(machines)}; this machine is {here}")
    return _Elf(data, what, error).check().functions() if kind == "ELF" else None


def _identify(data: bytes, what: str, error: type[LibraryError]) -> str:
    """The format."""
    if len(data) < 64:
        raise error(f"{what} is no shared library: it has {len(data)} bytes")
    if data[:4] == b"\x7fELF":
        return "ELF"
    if int.from_bytes(data[:4], "little") in _MACHO or data[:4] == _FAT:
        return "Mach-O"
    if data[:2] == b"MZ":
        at = int.from_bytes(data[60:64], "little")
        if data[at : at + 4] == b"PE\0\0":
            return "PE"
    raise error(
        f"{what} is no shared library: it begins with {data[:4].hex(' ')}, which is neither ELF, "
        "Mach-O nor PE"
    )


def _elf(data: bytes, what: str, error: type[LibraryError]) -> list[str]:
    if data[5] != 1 or data[4] not in (1, 2):
        raise error(f"{what} is a big-endian or unknown kind of ELF file")
    number = int.from_bytes(data[18:20], "little")
    return [_ELF_MACHINES.get(number, f"ELF machine {number}")]


def _images(data: bytes, what: str, error: type[LibraryError]) -> list[str]:
    return _fat(data, what, error) if data[:4] == _FAT else [_macho(data, what, error)]


def _macho(data: bytes, what: str, error: type[LibraryError]) -> str:
    """The machine of a Mach-O image of one machine, whose load commands are within the file."""
    magic, cpu, _, kind, count, size = struct.unpack_from("<6I", data)
    machine = _MACHO_MACHINES.get(cpu, f"Mach-O machine {cpu}")
    broken = f"{what} is no library that can be loaded:"
    if kind not in (_MH_DYLIB, _MH_BUNDLE):
        raise error(f"{broken} it is a Mach-O file of type {kind}")
    at = 32 if magic == 0xFEEDFACF else 28
    end = at + size
    if end > len(data) or count > size // 8:
        raise error(f"{broken} its load commands reach past the end of the file")
    for _ in range(count):
        command, length = struct.unpack_from("<2I", data, at)
        if length < 8 or length % 4 or at + length > end:
            raise error(f"{broken} a load command reaches past the others")
        if command in (_LC_SEGMENT, _LC_SEGMENT_64):
            layout, place = ("<4Q", 24) if command == _LC_SEGMENT_64 else ("<4I", 24)
            if length < place + struct.calcsize(layout):
                raise error(f"{broken} a load command reaches past the others")
            _, memory, offset, held = struct.unpack_from(layout, data, at + place)
            if offset + held > len(data) or held > memory:
                raise error(f"{broken} a segment reaches past the end of the file")
        at += length
    return machine


def _fat(data: bytes, what: str, error: type[LibraryError]) -> list[str]:
    """The machines of a Mach-O file that has an image for each of several."""
    (count,) = struct.unpack_from(">I", data, 4)
    if not 0 < count <= 64:  # a Java class begins with the same four bytes
        raise error(f"{what} is no shared library: it is a fat file of {count} images")
    machines = []
    for i in range(count):
        _, _, offset, size, _ = struct.unpack_from(">5I", data, 8 + 20 * i)
        image = data[offset : offset + size]
        if len(image) < max(size, 64) or int.from_bytes(image[:4], "little") not in _MACHO:
            raise error(f"{what} is no library that can be loaded: image {i} is cut short or none")
        machines.append(_macho(image, what, error))
    return machines


def _pe(data: bytes, what: str, error: type[LibraryError]) -> list[str]:
    """The machine of a PE image that is a DLL, whose sections are within the file."""
    at = int.from_bytes(data[60:64], "little")
    number, count, _, _, _, optional, flags = struct.unpack_from("<2H3I2H", data, at + 4)
    machine = _PE_MACHINES.get(number, f"PE machine {number}")
    broken = f"{what} is no library that can be loaded:"
    if not flags & _PE_DLL:
        raise error(f"{broken} it is a PE file, but no DLL")
    (magic,) = struct.unpack_from("<H", data, at + 24)
    if magic not in (0x10B, 0x20B):
        raise error(f"{broken} its optional header has the number {magic:#x}")
    for i in range(count):
        held, offset = struct.unpack_from("<2I", data, at + 24 + optional + 40 * i + 16)
        if offset + held > len(data):
            raise error(f"{broken} a section reaches past the end of the file")
    return [machine]


_CHECKS = {"ELF": _elf, "Mach-O": _images, "PE": _pe}


class _Elf:
    def __init__(self, data: bytes, what: str, error: type[LibraryError]) -> None:
        self.error = error
        self.data = data
        self.what = what
        self.wide = data[4] == 2
        bits = struct.calcsize("P") * 8
        if self.wide != (bits == 64):
            raise self.broken(f"it is for {64 if self.wide else 32} bits, this Python for {bits}")

    def broken(self, text: str) -> LibraryError:
        return self.error(f"{self.what} is no library that can be loaded: {text}")

    def take(self, layout: str, offset: int) -> tuple[int, ...]:
        if offset < 0 or offset + struct.calcsize(layout) > len(self.data):
            raise self.broken(f"it ends before byte {offset + struct.calcsize(layout)}")
        return struct.unpack_from(layout, self.data, offset)

    def check(self) -> Tables:
        head = self.take("<HHIQQQIHHHHHH" if self.wide else "<HHIIIIIHHHHHH", 16)
        kind, machine, version, _, at, sections, _, head_size, size, count, *section = head
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
        found = entries(self, dynamic[0])
        self.check_dynamic(dict(found))
        symbols = self.check_sections(sections, section, dict(found))
        return Tables(self, found, dynamic[0], machine, symbols)

    def segment(self, v: tuple[int, ...]) -> Segment:
        if self.wide:
            kind, flags, offset, address, _, file_size, memory_size, align = v
        else:
            kind, offset, address, _, file_size, memory_size, flags, align = v
        return Segment(kind, flags, offset, address, file_size, memory_size, align)

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

    def check_part(self, s: Segment) -> None:
        """A segment that tells the loader of something within what is loaded."""
        what = f"segment of kind {s.kind:#x}"
        size = s.memory_size
        if s.kind == _PT_TLS:  # what is beyond the file's part is made for each thread
            if size > _MAX_TLS or s.align & (s.align - 1):
                raise self.broken(f"it asks for {size} bytes for each thread")
            size = s.file_size
        if s.kind == _PT_RELRO:  # whose last page may be more than what it holds
            room = self.room(s.address)
            size = room if room < size <= room + -(s.address + room) % 4096 else size
        at = self.place(s.address, size, what) if size else s.offset
        if s.file_size > s.memory_size or (s.file_size and at != s.offset):
            raise self.broken(f"its {what} lies elsewhere in memory than in the file")
        if s.kind == _PT_RELRO and (s.address + s.memory_size) % 4096:
            raise self.broken("what becomes read-only does not end with a page")

    def room(self, address: int) -> int:
        """Bytes of the segment from an address on."""
        rooms = [s.address + s.memory_size - address for s in self.loads if s.holds(address)]
        return rooms[0] if rooms else 1

    def place(self, address: int, size: int, what: str, held: bool = False) -> int:
        """Where in the file an address stands."""
        for s in self.loads:
            room = s.file_size if held else s.memory_size
            if s.address <= address and address + size <= s.address + room:
                return s.offset + address - s.address
        raise self.broken(f"its {what} lies outside of what is loaded")

    def check_dynamic(self, found: dict[int, int]) -> None:
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

    def check_sections(self, at: int, header: list[int], dynamic: dict[int, int]) -> int:
        """Where there are section headers: that they tell the same as the program headers. The
        number of symbols, if they have it.
        """
        size, count, _ = header
        symbols = 0
        if not at and not count:
            return symbols
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
            symbols = length // (24 if self.wide else 16)
        return symbols

    def check_rights(self, flags: int, address: int) -> None:
        (segment,) = (s for s in self.loads if s.address <= address < s.address + s.memory_size)
        wanted = _PF_READ
        wanted |= _PF_WRITE if flags & _SHF_WRITE else 0
        wanted |= _PF_EXEC if flags & _SHF_EXEC else 0
        if wanted & ~segment.flags:
            raise self.broken("a segment lacks the rights that its sections need")
