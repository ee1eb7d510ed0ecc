"""Where a Chromium is found, and what is said where there is none. No browser is started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolcrib import Toolbox
from toolcrib.builtin.browser import NAMES
from toolcrib.builtin.browser.launch import find_browser, missing
from toolcrib.builtin.browser.visits import Visits
from toolcrib.builtin.settings import BrowserSettings
from toolcrib.config import load_settings
from toolcrib.core.errors import AddressRefused, ConfigError

from .conftest import Room


def program(path: Path) -> Path:
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.mark.usefixtures("programs_in_tmp")
def test_the_first_of_the_path_unless_one_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_browser() is None
    chrome = program(tmp_path / "google-chrome")
    assert find_browser() == chrome
    chromium = program(tmp_path / "chromium")
    assert find_browser() == chromium
    assert find_browser(chrome) == chrome
    assert find_browser(tmp_path) is None
    assert find_browser(tmp_path / "none") is None


@pytest.mark.usefixtures("programs_in_tmp")
def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    said = missing(BrowserSettings())
    assert said is not None and "apt-get install chromium" in said and "tools.browser.executable_path" in said
    said = missing(BrowserSettings(executable_path=tmp_path / "none"))
    assert said is not None and "executable_path" in said and "none" in said
    assert missing(BrowserSettings(enabled=False)) == "disabled by tools.browser.enabled"
    program(tmp_path / "chromium")
    monkeypatch.setattr("toolcrib.builtin.browser.launch.find_spec", lambda name: None)
    said = missing(BrowserSettings())
    assert said is not None and said.endswith("pip install 'toolcrib[browser]'")  # Chromium is there


def test_a_toolbox_without_a_browser_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("TOOLCRIB_TOOLS__BROWSER__ENABLED", "false")
    (tmp_path / "work").mkdir()
    with Toolbox.open(tmp_path / "work") as box:
        assert {name for name, why in box.missing if "tools.browser.enabled" in why} == set(NAMES)
        assert not any(name.startswith("browser_") for name in box.registry.names)


def configured(folder: Path, text: str) -> BrowserSettings:
    file = folder / "config.toml"
    file.write_text(text)
    return load_settings(workspace=folder, config=file, environ={"HOME": str(folder)}).tools.browser


def test_settings_come_from_the_configuration(tmp_path: Path) -> None:
    assert configured(tmp_path, "") == BrowserSettings()
    found = configured(
        tmp_path,
        """[tools.browser]
executable_path = "/opt/chrome/chrome"
allowed_domains = ["*.Example.com"]
only_allowed_domains = true
timeout = 5
idle_timeout = 60
viewport = [800, 600]
max_chars = 3000
max_download_bytes = 1000
""",
    )
    assert found == BrowserSettings(
        True, Path("/opt/chrome/chrome"), ("*.example.com",), True, 5.0, 60.0, (800, 600), 3000, 1000
    )


def test_wrong_settings_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="viewport"):
        configured(tmp_path, "[tools.browser]\nviewport = [800]")
    with pytest.raises(ConfigError, match=r"tools\.browser\.allowed_domains"):
        configured(tmp_path, '[tools.browser]\nallowed_domains = ["10.0.0.0/8"]')


def test_a_project_that_is_not_trusted_can_only_tighten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "toolcrib.toml").write_text(
        """[tools.browser]
executable_path = "/tmp/evil"
allowed_domains = ["evil.example"]
only_allowed_domains = true
timeout = 5
max_download_bytes = 1000000000
"""
    )
    found = load_settings(workspace=tmp_path).tools.browser
    assert found == BrowserSettings(timeout=5.0, only_allowed_domains=True)


class TestVisits:
    @pytest.fixture
    def room(self, tmp_path: Path) -> Any:
        made = Room(tmp_path)
        with made.stack:
            made.ports.add(8080)
            yield made

    def test_what_an_address_alone_says(self, room: Room) -> None:
        visits = Visits(room.guard, BrowserSettings(), None)
        for url in ("http://site.example:8080/", "https://site.example/", "about:blank"):
            assert visits.refuses(url, page=True) is None, url
        for url in ("data:text/css,x", "blob:http://site.example/1-2"):
            assert visits.refuses(url, page=False) is None, url
            assert visits.refuses(url, page=True) is not None, url
        for url in ("file:///etc/passwd", "chrome://version", "view-source:http://a.example/", "ftp://a.example/",
                    "javascript:1", "about:config", "http://10.0.0.1/", "http://localhost/", ""):  # fmt: skip
            assert visits.refuses(url, page=True) is not None, url
        assert visits.refuses("file:///etc/passwd", page=False) is not None

    def test_the_address_is_opened_as_the_guard_reads_it(self, room: Room) -> None:
        visits = Visits(room.guard, BrowserSettings(), None)
        assert (
            visits.opened("HTTP://Site.Example:8080/a b#/route?x=ä") == "http://site.example:8080/a%20b#/route?x=%C3%A4"
        )
        with pytest.raises(AddressRefused):
            visits.opened("http://10.0.0.1/")

    async def test_a_rule_that_fails_refuses(self, room: Room) -> None:
        def broken(*_: Any) -> Any:
            raise RuntimeError("no")

        visits = Visits(room.guard, BrowserSettings(), broken)
        with pytest.raises(RuntimeError):  # which the proxy takes for a refusal
            await visits.admit("site.example", 8080)

    async def test_domains_as_a_wall(self, room: Room) -> None:
        visits = Visits(room.guard, BrowserSettings(allowed_domains=("site.example",), only_allowed_domains=True), None)
        assert await visits.admit("site.example", 8080)
        for host in ("other.example", "site.example.evil.example", "127.0.0.1"):
            with pytest.raises(AddressRefused, match="not one of the domains"):
                await visits.admit(host, 8080)
