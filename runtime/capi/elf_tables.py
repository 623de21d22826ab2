"""The tables of an ELF library that the system's loader follows without looking: symbols, hash
tables, versions, relocations, and the functions that it calls.

What they say of the library's own code cannot be checked: a wrong address in the right section is
as good as wrong code.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ...kernels.types import Array

NEEDED, HASH, STRTAB, SYMTAB, RELA, RELASZ, RELAENT, STRSZ = 1, 4, 5, 6, 7, 8, 9, 10
INIT, FINI, REL, RELSZ, PLTREL, JMPREL, PLTRELSZ = 12, 13, 17, 18, 20, 23, 2
RELRSZ, RELR = 35, 36
INIT_ARRAY, FINI_ARRAY, INIT_ARRAYSZ, FINI_ARRAYSZ = 25, 26, 27, 28
GNU_HASH, VERSYM, RELACOUNT = 0x6FFFFEF5, 0x6FFFFFF0, 0x6FFFFFF9
VERDEF, VERDEFNUM, VERNEED, VERNEEDNUM = 0x6FFFFFFC, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF

_SYMBOL = {
    True: np.dtype(
        [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"),
         ("size", "<u8")]
    ),
    False: np.dtype(
        [("name", "<u4"), ("value", "<u4"), ("size", "<u4"), ("info", "u1"), ("other", "u1"),
         ("section", "<u2")]
    ),
}  # fmt: skip
_RELA = np.dtype([("offset", "<u8"), ("info", "<u8"), ("addend", "<i8")])
_UNDEFINED, _ABSOLUTE, _FUNCTION, _TLS, _RESOLVER = 0, 0xFFF1, 2, 6, 10
# relocations by machine: of the base address, and of the address that a function gives
_RELATIVE = {62: (8, 37), 183: (1027, 1032), 243: (3, 58)}
_NONE = 0


@dataclass(frozen=True)
class Segment:
    kind: int
    flags: int
    offset: int
    address: int
    file_size: int
    memory_size: int
    align: int

    def holds(self, address: Any, size: int = 1) -> Any:
        """Of one address, or of an array of them."""
        return (self.address <= address) & (address + size <= self.address + self.memory_size)


class File(Protocol):
    """What is known of the file when its tables are checked."""

    data: bytes
    wide: bool
    loads: list[Segment]

    def broken(self, text: str) -> Exception: ...
    def take(self, layout: str, offset: int) -> tuple[int, ...]: ...
    def place(self, address: int, size: int, what: str, held: bool = False) -> int: ...


class Tables:
    """Checked when made; then `functions` are known."""

    def __init__(
        self,
        file: File,
        entries: Sequence[tuple[int, int]],
        dynamic: Segment,
        machine: int,
        symbols: int,
    ) -> None:
        """`symbols`: how many there are, where section headers say so. (Hash tables say it only of
        those that are offered.)
        """
        self.file = file
        self.found = dict(entries)
        self.needed = {v for tag, v in entries if tag == NEEDED}
        self.dynamic = dynamic
        self.machine = machine
        self.strings = file.place(self.found[STRTAB], self.found[STRSZ], "table of names", True)
        count = max(self._hashed(), symbols)
        self.symbols = self._read(SYMTAB, count, _SYMBOL[file.wide], "table of symbols")
        self._check_symbols()
        self._check_versions(count)
        if file.wide and machine in _RELATIVE:
            self._check_relocations(count if symbols else None)

    def functions(self) -> list[str]:
        """Names of the functions that it offers to others."""
        s = self.symbols
        offered = s[(s["info"] & 15 == _FUNCTION) & (s["section"] != _UNDEFINED)]
        return [self._name(int(n)) for n in offered["name"]]

    def _name(self, at: int) -> str:
        start = self.strings + at
        return self.file.data[start : self.file.data.index(b"\0", start)].decode("utf-8", "replace")

    def _read(self, tag: int, count: int, dtype: Any, what: str) -> Array:
        dtype = np.dtype(dtype)
        size = count * dtype.itemsize
        start = self.file.place(self.found[tag], max(size, 1), what, True)
        return np.frombuffer(self.file.data, dtype, count, start)

    # -- hash tables

    def _hashed(self) -> int:
        """The number of symbols, from the tables by which the loader finds them."""
        counts = []
        if HASH in self.found:
            buckets, count = self._words(HASH, 0, 2)
            if not 0 < buckets <= 1 << 20 or not 0 < count <= 1 << 20:
                raise self.file.broken(f"its hash table has {buckets} and {count} places")
            words = self._words(HASH, 2, buckets + count)
            self._follow(words[:buckets], words[buckets:])
            counts.append(count)
        if GNU_HASH in self.found:
            counts.append(self._gnu_hashed())
        return max(counts)

    def _words(self, tag: int, first: int, count: int) -> list[int]:
        start = self.file.place(self.found[tag] + 4 * first, 4 * count, "hash table", True)
        words: list[int] = np.frombuffer(self.file.data, "<u4", count, start).tolist()
        return words

    def _follow(self, buckets: list[int], chains: list[int]) -> None:
        """A chain that leads back into itself would never end."""
        for bucket in buckets:
            seen = set()
            while bucket:
                if bucket >= len(chains) or bucket in seen:
                    raise self.file.broken("its hash table has no end")
                seen.add(bucket)
                bucket = chains[bucket]

    def _gnu_hashed(self) -> int:
        buckets, first, filters, shift = self._words(GNU_HASH, 0, 4)
        word = 2 if self.file.wide else 1
        if not 0 < buckets <= 1 << 20 or not 0 < filters <= 1 << 20 or filters & (filters - 1):
            raise self.file.broken(f"its hash table has {buckets} and {filters} places")
        if shift > 63:
            raise self.file.broken(f"its hash table shifts by {shift}")
        heads = self._words(GNU_HASH, 4 + word * filters, buckets)
        last = max(heads)
        if last == 0:
            return max(first, 1)
        if min(h for h in heads if h) < first:
            raise self.file.broken("its hash table has symbols from before the first")
        chains = 4 + word * filters + buckets
        while True:  # the last chain ends with an odd number
            (value,) = self._words(GNU_HASH, chains + last - first, 1)
            last += 1
            if value & 1:
                return last

    # -- symbols and versions

    def _check_symbols(self) -> None:
        s, broken = self.symbols, self.file.broken
        if (s["name"] >= self.found[STRSZ]).any():
            raise broken("the name of a symbol lies outside of the table of names")
        kind = s["info"] & 15
        own = (s["section"] != _UNDEFINED) & (s["section"] != _ABSOLUTE) & (kind != _TLS)
        values = s["value"][own].astype(np.uint64)
        inside = np.zeros(values.shape, bool)
        for load in self.file.loads:  # an end may be named, too
            inside |= (values >= load.address) & (values <= load.address + load.memory_size)
        if not inside.all():
            raise broken("a symbol lies outside of what is loaded")
        called = own & ((kind == _FUNCTION) | (kind == _RESOLVER))
        if not self._executable(s["value"][called].astype(np.uint64)).all():
            raise broken("a function lies where nothing is executed")

    def _executable(self, addresses: Array) -> Array:
        found = np.zeros(addresses.shape, bool)
        for load in self.file.loads:
            if load.flags & 1:
                found |= (addresses >= load.address) & (addresses < load.address + load.memory_size)
        return found

    def _check_versions(self, count: int) -> None:
        known = {0, 1}
        for at, (version, number, file, aux, _) in self._chain(VERNEED, VERNEEDNUM, "<HHIII"):
            if version != 1 or file not in self.needed:
                raise self.file.broken("it needs versions of a library that it does not need")
            for _ in range(number):
                _, _, other, name, step = self.file.take("<IHHII", at + aux)
                self._check_name(name)
                known.add(other & 0x7FFF)
                aux += step
        for at, (version, _, index, number, _, aux, _) in self._chain(
            VERDEF, VERDEFNUM, "<HHHHIII"
        ):
            if version != 1:
                raise self.file.broken(f"it defines versions in the form {version}")
            known.add(index & 0x7FFF)
            for _ in range(number):
                name, step = self.file.take("<II", at + aux)
                self._check_name(name)
                aux += step
        if VERSYM in self.found:
            used = self._read(VERSYM, count, "<u2", "table of versions") & 0x7FFF
            if not set(np.unique(used).tolist()) <= known:
                raise self.file.broken("a symbol has a version that is not there")

    def _chain(self, tag: int, number: int, layout: str) -> list[tuple[int, tuple[int, ...]]]:
        """Entries that each say how far it is to the next; the last field."""
        if tag not in self.found:
            return []
        count = self.found.get(number, 0)
        if not 0 < count <= 1024:
            raise self.file.broken(f"it has {count} entries in a table of versions")
        at, found = self.file.place(self.found[tag], 1, "table of versions", True), []
        for i in range(count):
            entry = self.file.take(layout, at)
            found.append((at, entry))
            if bool(entry[-1]) != (i + 1 < count):
                raise self.file.broken("a table of versions ends too early, or not at all")
            at += entry[-1]
        return found

    def _check_name(self, name: int) -> None:
        if name >= self.found[STRSZ]:
            raise self.file.broken("the name of a version lies outside of the table of names")

    # -- relocations

    def _check_relocations(self, count: int | None) -> None:
        broken = self.file.broken
        if self.found.get(RELAENT, 24) != 24 or self.found.get(PLTREL, RELA) != RELA:
            raise broken("its relocations have another form")
        parts = []
        for tag, size in ((RELA, RELASZ), (JMPREL, PLTRELSZ)):
            if tag in self.found:
                size_found = self.found.get(size, 0)
                if size_found % 24:
                    raise broken("a table of relocations is cut short")
                parts.append(self._read(tag, size_found // 24, _RELA, "table of relocations"))
        found = np.concatenate(parts) if parts else np.zeros(0, _RELA)
        relative, resolved = _RELATIVE[self.machine]
        kinds = (found["info"] & 0xFFFFFFFF).astype(np.int64)
        first = self.found.get(RELACOUNT, 0)
        if first and (RELA not in self.found or first > len(parts[0])):
            raise broken(f"it has fewer than {first} relocations")
        if (kinds[:first] != relative).any():
            raise broken("its relocations are out of order")
        used = int((found["info"] >> 32).max(initial=0))
        if count is None:
            self._read(SYMTAB, used + 1, _SYMBOL[True], "table of symbols")
        elif used >= count:
            raise broken("a relocation is for a symbol that is not there")
        self._check_targets(found["offset"][kinds != _NONE])
        bases = found["addend"][kinds == relative].astype(np.uint64)
        inside = np.zeros(bases.shape, bool)
        for load in self.file.loads:
            inside |= (bases >= load.address) & (bases <= load.address + load.memory_size)
        if not inside.all():
            raise broken("a relocation leads outside of what is loaded")
        if not self._executable(found["addend"][kinds == resolved].astype(np.uint64)).all():
            raise broken("a function lies where nothing is executed")
        self._check_called(found, kinds, relative)

    def _check_targets(self, offsets: Array) -> None:
        """What is written is data, and not what the loader itself works by."""
        offsets = offsets.astype(np.uint64)
        right = np.zeros(offsets.shape, bool)
        for load in self.file.loads:
            if load.flags & 2:
                right |= load.holds(offsets, 8)
        d = self.dynamic
        right &= (offsets + np.uint64(8) <= d.address) | (offsets >= d.address + d.memory_size)
        if not right.all():
            raise self.file.broken("a relocation writes where nothing is to be written")

    def _packed(self) -> list[tuple[int, int]]:
        """Relocations of the base address in the packed form: where, and what stands there."""
        if RELR not in self.found:
            return []
        size = self.found.get(RELRSZ, 0)
        if size % 8:
            raise self.file.broken("a table of relocations is cut short")
        places, base = [], 0
        for word in self._read(RELR, size // 8, "<u8", "table of relocations").tolist():
            if word & 1:  # a bit for each of the words behind
                places += [base + 8 * i for i in range(63) if word >> (i + 1) & 1]
                base += 63 * 8
            else:
                places.append(word)
                base = word + 8
        self._check_targets(np.array(places, np.uint64))
        return [
            (at, self.file.take("<Q", self.file.place(at, 8, "relocated data", True))[0])
            for at in places
        ]

    def _check_called(self, found: Array, kinds: Array, relative: int) -> None:
        """What the loader calls: at the beginning and at the end, by tables and by address."""
        broken = self.file.broken
        for tag in (INIT, FINI):
            if (
                tag in self.found
                and not self._executable(np.array([self.found[tag]], np.uint64)).all()
            ):
                raise broken("a function lies where nothing is executed")
        if not self.found.get(INIT_ARRAYSZ) and not self.found.get(FINI_ARRAYSZ):
            return
        rows = zip(found["offset"].tolist(), kinds.tolist(), found["addend"].tolist(), strict=True)
        targets = {offset: (kind, addend) for offset, kind, addend in rows}
        targets.update((at, (relative, value)) for at, value in self._packed())
        for tag, size in ((INIT_ARRAY, INIT_ARRAYSZ), (FINI_ARRAY, FINI_ARRAYSZ)):
            start, length = self.found.get(tag, 0), self.found.get(size, 0)
            if length % 8 or length > 1 << 20:
                raise broken("a table of functions is cut short")
            for at in range(start, start + length, 8):
                kind, addend = targets.get(at, (_NONE, 0))
                known = np.array([addend if kind == relative else 0], np.uint64)
                if kind == _NONE or (kind == relative and not self._executable(known).all()):
                    raise broken("a function that is called first or last is none")


def entries(file: File, segment: Segment) -> list[tuple[int, int]]:
    """The dynamic section: tags and values, in order."""
    layout = "<qQ" if file.wide else "<iI"
    step = struct.calcsize(layout)
    start = file.place(segment.address, segment.file_size, "dynamic section", True)
    found: list[tuple[int, int]] = []
    for offset in range(start, start + segment.file_size - step + 1, step):
        tag, value = file.take(layout, offset)
        if tag == 0:
            return found
        found.append((tag & 0xFFFFFFFF, value))
    raise file.broken("its dynamic section has no end")
