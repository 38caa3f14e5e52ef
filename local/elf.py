"""Cutting the symbol tables off a shared library.

Decided here: that what lies behind the last byte that is ever loaded goes. Names that other libraries link to are
loaded, so they stay; what goes serves debuggers only. In TensorFlow's wheels that is 250 MB, and `strip` is not on
every machine.
"""

import struct
from pathlib import Path

_MAGIC_64_LITTLE = b"\x7fELF\x02\x01"


def cut(library: Path) -> None:
    """Shorten the file to what its program headers load. A file of another kind is left as it is."""
    with library.open("r+b") as file:
        header = file.read(64)
        if len(header) < 64 or not header.startswith(_MAGIC_64_LITTLE):
            return
        programs_at, sections_at = struct.unpack_from("<QQ", header, 32)
        size, count = struct.unpack_from("<HH", header, 54)
        file.seek(programs_at)
        programs = file.read(size * count)
        end = programs_at + size * count
        for number in range(count):
            offset, length = (struct.unpack_from("<Q", programs, number * size + at)[0] for at in (8, 32))
            end = max(end, offset + length)
        if sections_at < end:
            return  # sections among what is loaded: not the shape that a linker gives
        file.truncate(end)
        file.seek(40)
        file.write(struct.pack("<Q", 0))  # e_shoff: there are no sections
        file.seek(60)
        file.write(struct.pack("<HH", 0, 0))  # e_shnum, e_shstrndx
