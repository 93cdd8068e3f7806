"""A user's algorithms and models: Python files in folders that config.yaml names.

The folders extend the ``__path__`` of ``flatfed.algorithms`` or ``flatfed.models``. A file's name is its id.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import pkgutil
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from flatfed.errors import ConfigError, unknown

#: Folders of FlatFed and of Python.
NOT_LOCAL = (Path(__file__).resolve().parent, Path(sysconfig.get_path("stdlib")).resolve())


class UserFiles:
    """The modules of a ``kind``, "algorithm" or "model", in ``package``: ``shipped`` and the user's.

    ``setting``: the key of config.yaml for the user's folders; ``variable``: the environment variable for jobs.
    """

    def __init__(self, kind: str, package: str, shipped: Iterable[str]):
        self.kind, self.package, self.shipped = kind, package, frozenset(shipped)
        self.setting, self.variable = f"{kind}_folders", f"FLATFED_{kind.upper()}S"

    @property
    def path(self) -> list[str]:
        """The package's folder, then the user's folders."""
        return sys.modules[self.package].__path__

    def look_in(self, folders: Iterable[str | Path], where: str) -> list[str]:
        """Add the files of ``folders``; return the absolute paths of the folders.

        :raises ConfigError: a folder does not exist, or a file has the name of an existing module.
        """
        paths = []
        for folder in folders:
            path = Path(folder).resolve()
            if not path.is_dir():
                raise ConfigError(f"{where}: {str(folder)!r} is not a folder; expected a folder of {self.kind} files")
            if str(path) not in self.path:
                module_names = {*self.shipped, *(module.name for module in pkgutil.iter_modules(self.path))}
                for module in pkgutil.iter_modules([str(path)]):
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
        infos = pkgutil.iter_modules(self.path[1:])
        return sorted({*self.shipped, *(info.name for info in infos if not (info.ispkg or info.name.startswith("_")))})

    def own_files(self, name: str) -> list[Path]:
        """Return the user's file of ``name`` and the ``_*.py`` next to it; [] for a module of FlatFed."""
        for folder in map(Path, self.path[1:]):
            if (folder / f"{name}.py").is_file():
                return [folder / f"{name}.py", *sorted(folder.glob("_*.py"))]
        return []

    def unknown(self, name: Any, ids: Iterable[str], where: str) -> ConfigError:
        """Return the error for an id that is not in ``ids``."""
        hint = f"for your own {self.kind}s, name their folder in `{self.setting}` of config.yaml"
        return ConfigError(f"{unknown(self.kind, name, ids, where)}; {hint}")

    def load(self, name: str) -> ModuleType:
        """Return the module ``name``; ConfigError if the import fails.

        Warns on stderr about imported files that its digest does not cover.
        """
        spec, before = importlib.util.find_spec(f"{self.package}.{name}"), set(sys.modules)
        try:
            module = importlib.import_module(spec.name)
        except Exception as error:  # a user's file can raise anything
            problem = f"this {self.kind} cannot be imported: {type(error).__name__}: "
            raise ConfigError(f"{spec.origin}: {'' if isinstance(error, ConfigError) else problem}{error}") from error
        user_files = self.own_files(name)
        if user_files and (uncovered := sorted(local_files(sys.modules.keys() - before) - set(user_files))):
            warning = f"{spec.origin} imports {', '.join(map(str, uncovered))}: changes there make no run stale"
            print(f"flatfed: warning: {warning}; use `_*.py` in its folder instead", file=sys.stderr)
        return module


def local_files(modules: Iterable[str]) -> set[Path]:
    """Return the files of ``modules`` outside FlatFed, Python and installed packages.

    ``__file__`` of torch.classes and torch.ops names no file.
    """
    names = (getattr(sys.modules[module], "__file__", None) for module in modules)
    files = {Path(name).resolve() for name in names if name and Path(name).is_file()}
    return {file for file in files if not any(map(file.is_relative_to, NOT_LOCAL)) and "-packages" not in str(file)}
