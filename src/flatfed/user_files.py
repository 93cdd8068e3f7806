"""A user's algorithms and models: Python files in folders that config.yaml names.

The folders extend the ``__path__`` of ``flatfed.algorithms`` or ``flatfed.models``. A file's name is its id. A digest
of the file, and of all files that it imports, is its version.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib
import importlib.util
import os
import pkgutil
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from itertools import accumulate
from pathlib import Path
from types import ModuleType
from typing import Any

from flatfed.errors import ConfigError, unknown

#: Folders of FlatFed and of Python.
NOT_LOCAL = (Path(__file__).resolve().parent, Path(sysconfig.get_path("stdlib")).resolve())

#: Folders of installed packages.
INSTALLED = frozenset({"site-packages", "dist-packages"})

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

#: Rule number in the digests of users' files: increase it if FlatFed makes other numbers of the same files.
RULE = 2

#: Environment variable of jobs: the user's files of callbacks.
CALLBACKS = "FLATFED_CALLBACKS"

#: The rooms of FlatFed that users extend.
ROOMS: list[UserFiles] = []


class UserFiles:
    """The modules of a ``kind``, "algorithm" or "model", in ``package``: ``shipped`` and the user's.

    ``parts``: other shipped modules. ``variable``: the environment variable with the user's folders for jobs.
    ``digests``: user's file -> :meth:`digest`.
    """

    def __init__(self, kind: str, package: str, shipped: Iterable[str], parts: Iterable[str]):
        self.kind, self.package, self.shipped = kind, package, frozenset(shipped)
        self.modules = {*self.shipped, *parts, "__init__"}
        self.variable = f"FLATFED_{kind.upper()}S"
        self.digests: dict[Path, str] = {}
        ROOMS.append(self)

    @property
    def path(self) -> list[str]:
        """The package's folder, then the user's folders."""
        return sys.modules[self.package].__path__

    def look_in(self, folders: Iterable[str | Path], where: str) -> list[str]:
        """Add the files of this kind in ``folders``; return their absolute paths.

        :raises ConfigError: a folder does not exist, or a file has the name of an existing module.
        """
        paths = []
        for folder in folders:
            path = Path(folder).resolve()
            if not path.is_dir():
                raise ConfigError(f"{where}: {str(folder)!r} is not a folder; expected a folder of {self.kind} files")
            if str(path) not in self.path:
                module_names = {*self.shipped, *(module.name for module in pkgutil.iter_modules(self.path))}
                for module in filter(self._holds, pkgutil.iter_modules([str(path)])):
                    if module.name in module_names:
                        file = f"{where}: {path / module.name}.py"
                        raise ConfigError(f"{file}: {self.package} has {module.name!r} already; rename the file")
                self.path.append(str(path))
            paths.append(str(path))
        return paths

    def look_in_environment(self) -> None:
        folders = os.environ.get(self.variable, "").split(os.pathsep)
        self.look_in(filter(None, folders), f"environment variable {self.variable}")

    def names(self) -> list[str]:
        infos = filter(self._holds, pkgutil.iter_modules(self.path))
        files = {info.name for info in infos if not (info.ispkg or info.name.startswith("_"))}
        return sorted(self.shipped | (files - self.modules))

    def _holds(self, module: pkgutil.ModuleInfo) -> bool:
        """Return whether a ``module`` is shipped or a user's file of this kind."""
        folder = module.module_finder.path
        return folder == self.path[0] or kind_of(Path(folder, f"{module.name}.py")) == self.kind

    def own_file(self, name: str) -> Path | None:
        """Return the user's file of ``name``; None for a module of FlatFed."""
        files = (Path(folder, f"{name}.py") for folder in self.path if name not in self.modules)
        return next((file for file in files if file.is_file()), None)

    def files(self, name: str) -> list[Path]:
        """Return the user's file of ``name`` and the user's files that it imports; none for a module of FlatFed."""
        file = self.own_file(name)
        return self._imported(f"{self.package}.{name}", file) if file else []

    def digest(self, name: str) -> str | None:
        """Return the digest of the user's file of ``name`` and of the user's files that it imports, also indirectly.

        It begins with :data:`RULE`. It is that of the imported code, even if a file changed since. None for a module of
        FlatFed.
        """
        if (file := self.own_file(name)) and file not in self.digests:
            self.digests[file] = f"{RULE}-{syntax_digest(self._imported(f'{self.package}.{name}', file))}"
        return self.digests.get(file)

    def _imported(self, first: str, file: Path) -> list[Path]:
        """Return ``file`` of module ``first`` and the user's files that it imports, by module name."""
        files, waiting = {first: file}, [first]
        for module in waiting:
            for name in imported_names(module, files[module]):
                path = None if name in files else source_file(name)
                if path and self._is_users(path):
                    files[name] = path
                    waiting.append(name)
        return [files.pop(first), *(files[module] for module in sorted(files))]

    def _is_users(self, file: Path) -> bool:
        """Return whether ``file`` is neither shipped nor of Python or an installed package."""
        for room in ROOMS:
            if file.is_relative_to(room.path[0]):
                return file.relative_to(room.path[0]).parts[0].removesuffix(".py") not in room.modules
        resolved = file.resolve()
        local = not any(map(resolved.is_relative_to, NOT_LOCAL)) and INSTALLED.isdisjoint(resolved.parts)
        return str(file.parent) in self.path or local

    def unknown(self, name: Any, ids: Iterable[str], where: str) -> ConfigError:
        """Return the error for an id that is not in ``ids``."""
        hint = f"for your own {self.kind}s, name their folder in `folders` of config.yaml ({self.variable} for train)"
        return ConfigError(f"{unknown(self.kind, name, ids, where)}; {hint}")

    def load(self, name: str) -> ModuleType:
        """Return the module ``name``; ConfigError if the import fails."""
        spec = importlib.util.find_spec(f"{self.package}.{name}")
        if spec.name not in sys.modules:
            self.digests.pop(self.own_file(name), None)
            self.digest(name)  # before an edit
        try:
            return importlib.import_module(spec.name)
        except Exception as error:  # a user's file can raise anything
            problem = f"this {self.kind} cannot be imported: {type(error).__name__}: "
            raise ConfigError(f"{spec.origin}: {'' if isinstance(error, ConfigError) else problem}{error}") from error


def folders() -> list[str]:
    """Return the user's folders with algorithms or models."""
    return sorted({folder for room in ROOMS for folder in room.path[1:]})


@functools.cache
def kind_of(file: Path) -> str:
    """Return "model" for a file with the function ``build``, "callback" or "algorithm" for one with a class, or ""."""
    nodes = syntax_tree(file).body if file.is_file() else []
    if any(isinstance(node, ast.FunctionDef) and node.name == "build" for node in nodes):
        return "model"
    bases = [[ast.unparse(base) for base in node.bases] for node in nodes if isinstance(node, ast.ClassDef)]
    if any(base.endswith("Callback") for names in bases for base in names):
        return "callback"
    return "algorithm" if bases else ""


def imported_names(module: str, file: Path) -> Iterator[str]:
    """Yield the modules that ``file`` of ``module`` imports, with their packages, and names that may be modules."""
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(syntax_tree(file)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            level = getattr(node, "level", 0)
            above = [package.rsplit(".", level - 1)[0] if level else None, getattr(node, "module", None)]
            for alias in node.names:
                parts = ".".join(filter(None, [*above, alias.name])).split(".")
                yield from accumulate(parts, "{}.{}".format)


def source_file(module: str) -> Path | None:
    """Return the file of ``module``, without importing it; None if there is none."""
    path = None
    for package in accumulate(module.split("."), "{}.{}".format):
        spec = next(filter(None, (finder.find_spec(package, path) for finder in sys.meta_path)), None)
        if spec is None:
            return None
        path = getattr(sys.modules.get(package), "__path__", spec.submodule_search_locations) or []
    return Path(spec.origin) if spec.has_location else None


def syntax_tree(file: Path) -> ast.Module:
    """Return the syntax tree of ``file``; its bytes as a constant if it is not Python, such as a compiled module."""
    try:
        return ast.parse(file.read_bytes(), str(file))
    except (SyntaxError, ValueError):
        return ast.Module([ast.Expr(ast.Constant(file.read_bytes()))], [])


def syntax_digest(paths: Iterable[Path]) -> str:
    """Return the SHA-256 of Python files without comments, docstrings and formatting."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path.name}\n".encode())
        tree = syntax_tree(path)
        for node in ast.walk(tree):
            if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
                node.body = node.body[1:]
        digest.update(ast.dump(tree).replace(", type_params=[]", "").encode())  # new in Python 3.12
    return digest.hexdigest()
