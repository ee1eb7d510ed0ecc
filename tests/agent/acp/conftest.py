"""Tests of the editor's protocol need its library."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("acp") else ["test_*.py"]
if find_spec("acp"):
    from .editor import editing, home, scripted  # noqa: F401
