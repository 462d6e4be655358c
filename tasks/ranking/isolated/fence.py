"""What a process with foreign code may do: the kernel lets it read Python's libraries and write to one folder.

Linux enforces it (Landlock): whatever the process runs, other files cannot be opened, no TCP connection can be made or
taken, other processes cannot be signalled or looked into, and the rules cannot be taken back.
"""

import ctypes
import os
import resource
import struct
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_PATH_BENEATH = 1
_NO_NEW_PRIVILEGES = 38
_READ = 1 << 0 | 1 << 2 | 1 << 3  # execute, read files, list folders
_OF_FILES = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15  # rights that a rule on a file may give
_ALL_OF_FIRST = (1 << 13) - 1
_ADDED = {2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
"""Rights over files that later versions of Landlock know."""

_TCP_SINCE, _SCOPED_SINCE = 4, 6

MOST_FILE = 2**30
"""Bytes of a file that the process may write."""

SYSTEM = (
    "/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime", "/etc/ssl", "/dev/urandom", "/dev/random",
    "/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu",
)  # fmt: skip
"""What Python and its libraries read of the operating system."""


class Fence(NamedTuple):
    """What a process may open.

    Attributes:
        readable: Files and folders.
        writable: A folder.
        network: Whether it may use TCP.
    """

    readable: tuple[str, ...]
    writable: str
    network: bool = False


def library_paths(path: Sequence[str]) -> list[Path]:
    """Returns what of Python's search path a process needs: installed libraries, and packages in other folders.

    A folder of the search path that is no library folder, such as a checkout, may hold anything: of it only what can be
    imported is returned.

    Args:
        path: As `sys.path`.
    """
    prefixes = [Path(found).resolve() for found in (sys.prefix, sys.base_prefix)]
    found = [*prefixes]
    for entry in (Path(name).resolve() for name in path if name):
        if entry.is_file() or any(entry.is_relative_to(prefix) for prefix in prefixes):
            found.append(entry)
        elif entry.is_dir():
            found += [child for child in entry.iterdir() if _is_importable(child)]
    return list(dict.fromkeys(found))


def _is_importable(path: Path) -> bool:
    if path.is_file():
        return path.suffix in (".py", ".so")
    return (path / "__init__.py").is_file() or path.suffix == ".dist-info"


def is_enforceable() -> bool:
    """Returns whether the kernel of this machine can restrict a process."""
    return sys.platform == "linux" and _version() >= 1


def restrict(fence: Fence) -> bool:
    """Restricts this process and all that it starts, for ever; returns False where the kernel cannot."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_FILE, MOST_FILE))
    version = _version() if sys.platform == "linux" else 0
    if version < 1:
        return False
    files = _ALL_OF_FIRST
    for since, right in _ADDED.items():
        files |= right if version >= since else 0
    tcp = 0b11 if version >= _TCP_SINCE and not fence.network else 0
    scoped = 0b11 if version >= _SCOPED_SINCE else 0
    attributes = struct.pack("=QQQ", files, tcp, scoped)[: 24 if version >= _SCOPED_SINCE else 16 if tcp else 8]
    ruleset = _call(_CREATE, attributes, ctypes.c_size_t(len(attributes)), 0)
    for path in (*SYSTEM, *fence.readable):
        _allow(ruleset, path, _READ & files)
    _allow(ruleset, "/dev/null", (_READ | 1 << 1) & files)
    _allow(ruleset, fence.writable, files & ~(1 << 15))
    _libc().prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    _call(_RESTRICT, ruleset, 0)
    os.close(ruleset)
    return True


def overlapping(folder: Path, readable: Iterable[Path]) -> Path | None:
    """Returns a readable path inside which a folder lies, if there is one."""
    whole = folder.resolve()
    return next((path for path in readable if whole == path or whole.is_relative_to(path)), None)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _call(number: int, *arguments: object) -> int:
    found = _libc().syscall(number, *arguments)
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found


def _version() -> int:
    return max(0, _libc().syscall(_CREATE, None, ctypes.c_size_t(0), 1))


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what is not there cannot be read
    if not Path(path).is_dir():
        rights &= _OF_FILES
    try:
        _call(_ADD, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, opened), 0)
    finally:
        os.close(opened)
