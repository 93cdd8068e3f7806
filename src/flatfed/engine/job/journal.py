"""Named vectors on disk, of which only those that changed are written: what checkpoints are made of.

A folder holds numbered safetensors files and ``manifest.json``, which says where the last of every vector is. A commit
writes one more file, then the manifest, by renaming: a process that dies at any moment leaves the commit before, whole.
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
    """What is on the disk is not what was written."""


class Journal:
    """Vectors in ``folder``: ``index`` name -> [file, bytes, CRC-32], ``files`` name -> bytes, ``about`` (JSON)."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.index: dict[str, list[Any]] = {}
        self.files: dict[str, int] = {}
        self.about: dict[str, Any] = {}

    @classmethod
    def read(cls, folder: Path) -> Journal:
        """Return the last commit in ``folder``, nothing in it if there is none; what came after it is removed.

        Raises Damaged for a manifest that is not whole, and for files that are absent or of another length.
        """
        journal = cls(folder)
        try:
            written = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
            content = written["content"]
            if written["sha256"] != _digest(content):
                raise Damaged(f"{folder / MANIFEST} is not what was written")
            journal.index, journal.files, journal.about = content["index"], content["files"], content["about"]
            if any((folder / name).stat().st_size != size for name, size in journal.files.items()):
                raise Damaged(f"files in {folder} are of another length than was written")
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
        """Write ``vectors``, forget others that are not ``alive``, store ``about`` (JSON); return the bytes written.

        Vectors go to the file one by one: nothing is copied but one of them from a device. ``check`` is called between
        two and may raise, which leaves everything as it was.
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
        used = {entry[0] for entry in index.values()}
        sizes = {**self.files, name: 8 + len(head) + end}
        files = {file: size for file, size in sizes.items() if file in used}
        content = {"index": index, "files": files, "about": about}
        with write_whole(self.folder / MANIFEST, "w") as file:
            json.dump({"sha256": _digest(content), "content": content}, file)
        self.index, self.files, self.about = index, files, about
        self._sweep()
        return sizes[name]

    def scattered(self) -> list[str]:
        """Return which vectors to write again so that the files take at most twice what is alive in them.

        They are those of the files with the smallest part alive: most is freed for what is written.
        """
        alive = dict.fromkeys(self.files, 0)
        for file, size, _ in self.index.values():
            alive[file] += size
        taken, limit = sum(self.files.values()), 2 * sum(alive.values())
        emptied = set()
        for file in sorted(self.files, key=lambda file: alive[file] / self.files[file]):
            if taken <= limit:
                break
            taken -= self.files[file] - alive[file]
            emptied.add(file)
        return [key for key, entry in self.index.items() if entry[0] in emptied]

    @contextlib.contextmanager
    def reader(self) -> Iterator[Callable[[str], Tensor]]:
        """Give a function from name to vector; it raises Damaged where the bytes are not those that were written."""
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
                    raise Damaged(f"{key} in {self.folder / file} is not what was written")
                return value

            yield get

    def _sweep(self) -> None:
        """Remove files that the manifest does not name: of interrupted commits, and with nothing alive in them."""
        if self.folder.is_dir():
            for path in self.folder.iterdir():
                if path.name not in self.files and path.name != MANIFEST:
                    path.unlink()


def _digest(content: dict[str, Any]) -> str:
    """Return the SHA-256 of ``content`` as JSON, the same before it is written and after it is read."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
