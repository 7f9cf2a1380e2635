"""AMD PACE's package name for gallop.pace: every module pace.NAME is the module gallop.pace.NAME."""

import importlib
import importlib.abc
import importlib.util
import sys

import gallop.pace

_OURS, _THEIRS = "gallop.pace", __name__


class _Loader(importlib.abc.InspectLoader):
    """Loads a module of gallop.pace under its name in `pace`: no class exists twice."""

    def __init__(self, spec):
        self._spec = spec

    def create_module(self, spec):
        return importlib.import_module(self._spec.name)

    def exec_module(self, module):
        module.__spec__ = self._spec

    def is_package(self, fullname):
        return self._spec.submodule_search_locations is not None

    def get_source(self, fullname):
        return self._spec.loader.get_source(self._spec.name)

    def get_code(self, fullname):  # for python -m
        return self._spec.loader.get_code(self._spec.name)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds pace.NAME where gallop.pace.NAME is."""

    def find_spec(self, fullname, path=None, target=None):
        if not fullname.startswith(_THEIRS + "."):
            return None
        spec = importlib.util.find_spec(_OURS + fullname[len(_THEIRS) :])
        if spec is None:
            return None
        loader = _Loader(spec)
        return importlib.util.spec_from_loader(
            fullname, loader, origin=spec.origin, is_package=loader.is_package(fullname)
        )


# First, so that no other finder loads a second copy from the folder of gallop.pace.
sys.meta_path.insert(0, _Finder())
sys.modules[_THEIRS] = gallop.pace
