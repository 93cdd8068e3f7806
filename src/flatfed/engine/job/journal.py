"""Checksummed vectors on disk; each commit writes only the changed ones.

A folder has numbered safetensors files and ``manifest.json``, which locates each vector. A commit writes one file, then
replaces the manifest by renaming: after a crash the last commit is intact.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from flatfed.files import write_whole

MANIFEST = "manifest.json"
DTYPES = {torch.float32: "F32", torch.float64: "F64"}


class Damaged(Exception):
    """The files differ from the written ones."""


class Journal:
    """Vectors in ``folder``: ``index`` name -> [file, bytes, CRC-32], ``files`` name -> bytes, ``about`` (JSON)."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.index: dict[str, list[Any]] = {}
        self.files: dict[str, int] = {}
        self.about: dict[str, Any] = {}

    @classmethod
    def read(cls, folder: Path) -> Journal:
        """Return the last commit in ``folder``, an empty one if there is none; remove later files.

        :raises Damaged: the manifest is damaged, or a file is missing or has another length.
        """
        journal = cls(folder)
        try:
            written = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
            content = written["content"]
            if written["sha256"] != _digest(content):
                raise Damaged(f"{folder / MANIFEST} differs from its checksum")
            journal.index, journal.files, journal.about = content["index"], content["files"], content["about"]
            if any((folder / name).stat().st_size != size for name, size in journal.files.items()):
                raise Damaged(f"files in {folder} have another length than the written ones")
        except FileNotFoundError as error:
            if journal.files:
                raise Damaged(f"{error.filename} is missing") from error
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise Damaged(f"{folder / MANIFEST} cannot be read: {error}") from error
        journal._sweep()
        return journal

    def commit(
        self,
        vectors: Mapping[str, Tensor],
        alive: Iterable[str],
        about: dict[str, Any],
        check: Callable[[], None] = lambda: None,
    ) -> int:
        """Write ``vectors``, drop others that are not ``alive``, store ``about`` (JSON); return the bytes written.

        ``check`` is called before each vector and may raise, which changes nothing.
        """
        name = f"{1 + max((int(Path(file).stem) for file in self.files), default=0):06}.safetensors"
        index = {key: self.index[key] for key in alive if key not in vectors}
        header, end = {}, 0
        for key, value in vectors.items():
            begin, end = end, end + value.numel() * value.dtype.itemsize
            header[key] = {"dtype": DTYPES[value.dtype], "shape": list(value.shape), "data_offsets": [begin, end]}
        head = json.dumps(header).encode()
        head += b" " * (-len(head) % 8)
        with write_whole(self.folder / name) as file:
            file.write(struct.pack("<Q", len(head)) + head)
            for key, value in vectors.items():
                check()
                data = value.cpu().contiguous().numpy().data
                file.write(data)
                index[key] = [name, data.nbytes, zlib.crc32(data)]
        needed = {entry[0] for entry in index.values()}
        sizes = {**self.files, name: 8 + len(head) + end}
        files = {file: size for file, size in sizes.items() if file in needed}
        content = {"index": index, "files": files, "about": about}
        with write_whole(self.folder / MANIFEST, "w") as file:
            json.dump({"sha256": _digest(content), "content": content}, file)
        self.index, self.files, self.about = index, files, about
        self._sweep()
        return sizes[name]

    def scattered(self) -> list[str]:
        """Return the vectors to rewrite so that files have at most twice the size of their valid vectors."""
        valid = dict.fromkeys(self.files, 0)
        for file, size, _ in self.index.values():
            valid[file] += size
        total, limit = sum(self.files.values()), 2 * sum(valid.values())
        emptied = set()
        for file in sorted(self.files, key=lambda file: valid[file] / self.files[file]):  # most waste first
            if total <= limit:
                break
            total -= self.files[file] - valid[file]
            emptied.add(file)
        return [key for key, entry in self.index.items() if entry[0] in emptied]

    @contextlib.contextmanager
    def reader(self) -> Iterator[Callable[[str], Tensor]]:
        """Yield a function from name to vector; it raises Damaged if the bytes differ from their checksum."""
        with contextlib.ExitStack() as stack:
            opened: dict[str, Any] = {}

            def get(key: str) -> Tensor:
                try:
                    file, _, crc = self.index[key]
                    if file not in opened:
                        opened[file] = stack.enter_context(safe_open(self.folder / file, framework="pt"))
                    value = opened[file].get_tensor(key)
                except (SafetensorError, OSError, KeyError) as error:
                    raise Damaged(f"{key} in {self.folder} cannot be read: {error}") from error
                if zlib.crc32(value.numpy().data) != crc:
                    raise Damaged(f"{key} in {self.folder / file} differs from its checksum")
                return value

            yield get

    def _sweep(self) -> None:
        if self.folder.is_dir():
            for path in self.folder.iterdir():
                if path.name not in self.files and path.name != MANIFEST:
                    path.unlink()


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
