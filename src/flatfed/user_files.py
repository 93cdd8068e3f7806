"""A user's algorithms and models: Python files in folders that config.yaml names.

The folders extend the ``__path__`` of ``flatfed.algorithms`` and ``flatfed.models``. A file's name is its id. A digest
of the file, and of all of the user's files that its import loads, is its version.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import importlib
import os
import sys
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from flatfed.errors import ConfigError

#: Rule number in the digests of users' files: increase it if FlatFed makes other numbers of the same files.
RULE = 3

#: Environment variables of jobs: the keys ``folders`` and ``callbacks`` of config.yaml.
FOLDERS, CALLBACKS = "FLATFED_FOLDERS", "FLATFED_CALLBACKS"

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

#: Remedy for an unknown algorithm or model.
REMEDY = f"for your own files, name their folder in `folders` of config.yaml ({FOLDERS} for train)"

#: The rooms of FlatFed that users extend.
ROOMS: list[UserFiles] = []


class Imported(NamedTuple):
    """A user's ``module``, the user's ``files`` that its import loaded, and their ``digest`` after :data:`RULE`."""

    module: ModuleType
    files: list[Path]
    digest: str


class UserFiles:
    """The modules of a ``kind``, "algorithm" or "model", in ``package``: ``shipped`` and the user's.

    ``parts``: other shipped modules. ``imports``: user's file -> its import.
    """

    def __init__(self, kind: str, package: str, shipped: Iterable[str], parts: Iterable[str]):
        self.kind, self.package, self.shipped = kind, package, frozenset(shipped)
        self.modules = {*self.shipped, *parts, "__init__"}
        self.imports: dict[Path, Imported] = {}
        ROOMS.append(self)

    @property
    def path(self) -> list[str]:
        """The package's folder, then the user's folders."""
        return sys.modules[self.package].__path__

    def look_in(self, folders: Iterable[str | Path], where: str) -> None:
        """Add the files of this kind in ``folders``.

        :raises ConfigError: a file has a syntax error, or the name of another module.
        """
        paths = [Path(folder).resolve() for folder in folders]
        for path in (path for path in paths if str(path) not in self.path):
            for file in sorted(path.glob("[!_]*.py")):
                if file.stem in self.modules or (kind_of(file) == self.kind and self.own_file(file.stem)):
                    raise ConfigError(f"{where}: {file}: {self.package} has {file.stem!r} already; rename the file")
            self.path.append(str(path))

    def look_in_environment(self) -> None:
        self.look_in(filter(None, os.environ.get(FOLDERS, "").split(os.pathsep)), f"environment variable {FOLDERS}")

    def names(self) -> list[str]:
        files = (file for folder in self.path for file in Path(folder).glob("[!_]*.py"))
        own = {file.stem for file in files if file.stem not in self.modules and kind_of(file) == self.kind}
        return sorted(self.shipped | own)

    def own_file(self, name: str) -> Path | None:
        """Return the user's file of ``name``; None for a module of FlatFed."""
        files = (Path(folder, f"{name}.py") for folder in self.path if name not in self.modules)
        return next((file for file in files if file.is_file()), None)

    def imported(self, name: str) -> Imported | None:
        """Return the import of the user's file of ``name``; None for a module of FlatFed.

        :raises ConfigError: the file cannot be imported.
        """
        file = self.own_file(name)
        if file and file not in self.imports:
            try:
                with only_new_modules():
                    module = importlib.import_module(f"{self.package}.{name}")
                    files = [path for _, path in sorted(users_modules().items())]
            except (Exception, SystemExit) as error:  # a user's file can raise anything
                raise import_error(self.kind, file, error) from error
            self.imports[file] = Imported(module, files, f"{RULE}-{syntax_digest(files)}")
        return self.imports.get(file)

    def load(self, name: str) -> ModuleType:
        """Return the module ``name``; ConfigError if a user's file cannot be imported."""
        own = self.imported(name)
        return own.module if own else importlib.import_module(f"{self.package}.{name}")


@functools.cache
def kind_of(file: Path) -> str:
    """Return the kind of a user's ``file``, "" for another or absent one.

    "model": it has the function ``build``; "callback": a class with a base of this name; "algorithm": a class with
    the name of the file, and with a base.

    :raises ConfigError: the file has a syntax error.
    """
    try:
        nodes = ast.parse(file.read_bytes(), str(file)).body if file.is_file() else []
    except (SyntaxError, ValueError) as error:  # ValueError: null bytes, in Python 3.11
        raise ConfigError(f"{file}: {type(error).__name__}: {error}; correct this file, or move it elsewhere") from None
    if any(isinstance(node, ast.FunctionDef) and node.name == "build" for node in nodes):
        return "model"
    classes = {node.name.lower(): node.bases for node in nodes if isinstance(node, ast.ClassDef)}
    if any(ast.unparse(base).endswith("Callback") for bases in classes.values() for base in bases):
        return "callback"
    return "algorithm" if classes.get(file.stem.replace("_", "")) else ""


def users_modules() -> dict[str, Path]:
    """Return name -> Python file of the imported modules that are neither FlatFed's nor Python's nor installed."""
    names = ("site-packages", "dist-packages")
    installed = [path for path in map(str, sys.path) if path.endswith(names) or any(Path(path).glob("*.dist-info"))]
    others = tuple(os.path.join(path, "") for path in (*installed, *map(os.path.dirname, (__file__, os.__file__))))
    specs = {name: getattr(module, "__spec__", None) for name, module in list(sys.modules.items())}
    origins = {name: str(getattr(spec, "origin", None)) for name, spec in specs.items()}
    # A package with compiled modules, such as NumPy from its sources, cannot be imported twice.
    compiled = {name.partition(".")[0] for name, origin in origins.items() if origin.endswith((".so", ".pyd"))}
    files = {}
    for name, origin in origins.items():
        in_room = any(name.startswith(f"{room.package}.") and name.split(".")[2] not in room.modules for room in ROOMS)
        own = in_room or not (origin.startswith(others) or name.partition(".")[0] in compiled)
        if origin.endswith(".py") and own:
            files[name] = Path(origin)
    return files


@contextlib.contextmanager
def only_new_modules() -> Iterator[None]:
    """Forget the user's modules for an import, which then loads all that it needs: two files may import a third one."""
    earlier = {name: sys.modules.pop(name) for name in users_modules()}
    parents = {name: sys.modules.get(name.rpartition(".")[0]) for name in earlier}
    children = [(vars(parents[name]), name.rpartition(".")[2], earlier[name]) for name in earlier if parents[name]]
    for attributes, child, _ in children:
        attributes.pop(child, None)  # with it, `from package import child` loads nothing
    try:
        yield
    finally:
        sys.modules.update(earlier)
        for attributes, child, module in children:
            attributes[child] = module


def import_error(kind: str, file: Path, error: BaseException) -> ConfigError:
    """Return the error for a user's ``file`` whose import raised ``error``, with the line of the file."""
    frames = traceback.extract_tb(error.__traceback__)
    line = next((f"line {frame.lineno}: " for frame in reversed(frames) if frame.filename == str(file)), "")
    problem = "" if isinstance(error, ConfigError) else f"this {kind} cannot be imported: {type(error).__name__}: "
    remedy = '; move this call under `if __name__ == "__main__":`' if isinstance(error, SystemExit) else ""
    return ConfigError(f"{file}: {line}{problem}{error}{remedy}")


def syntax_digest(paths: Iterable[Path]) -> str:
    """Return the SHA-256 of Python files without comments, docstrings and formatting."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path.name}\n".encode())
        tree = ast.parse(path.read_bytes())
        for node in ast.walk(tree):
            if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
                node.body = node.body[1:]
        digest.update(ast.dump(tree).replace(", type_params=[]", "").encode())  # new in Python 3.12
    return digest.hexdigest()
