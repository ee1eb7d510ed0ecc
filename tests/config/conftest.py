"""A home, a workspace and an environment of their own for every test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from toolcrib.config import Settings, TrustStore, load_settings
from toolcrib.config.load import first_file


@dataclass
class Place:
    home: Path
    workspace: Path

    @property
    def environ(self) -> dict[str, str]:
        return {"HOME": str(self.home)}

    @property
    def trust(self) -> TrustStore:
        return TrustStore(self.home / ".local/state/toolcrib/trust.json")

    def user(self, text: str, name: str = "config.toml") -> Path:
        path = self.home / ".config/toolcrib" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def project(self, text: str, name: str = "toolcrib.toml") -> Path:
        path = self.workspace / name
        path.write_text(text, encoding="utf-8")
        return path

    def load(self, **more: Any) -> Settings:
        environ = {**self.environ, **more.pop("environ", {})}
        return load_settings(workspace=more.pop("workspace", self.workspace), environ=environ, **more)

    def trust_project(self) -> None:
        file = first_file(self.workspace, "toolcrib")
        assert file is not None
        self.trust.trust(file)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    return Place(tmp_path / "home", tmp_path / "work")


@pytest.fixture
def make_place(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Place]:
    def make() -> Place:
        base = tmp_path_factory.mktemp("place")
        (base / "home").mkdir()
        (base / "work").mkdir()
        return Place(base / "home", base / "work")

    return make
