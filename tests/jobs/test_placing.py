"""Where the jobs of a toolbox are done, and what the tag of its settings says."""

from pathlib import Path

import pytest

from toolcrib import Toolbox
from toolcrib.jobs.engine import MAX_TAGS, Job, JobError, pack
from toolcrib.jobs.host import JobHost
from toolcrib.jobs.placing import config_name, placement

TAGS = [f"t{number}" for number in range(MAX_TAGS)]


async def test_a_file_of_settings_takes_no_place_of_a_tag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    config = tmp_path / "strict.toml"
    config.write_text(f"[jobs]\ntags = {TAGS}\n")
    async with Toolbox.open(tmp_path, config=config) as box:
        job = Job("call", {}, **placement(box))
        pack(job)
        assert JobHost(box).serves.has(job)
    with pytest.raises(JobError, match="7 tags; at most 6"):
        pack(Job("call", {}, tags=(*TAGS, "more")))


@pytest.mark.parametrize(
    ("config", "shown"),
    [
        ("some/where-else/strict.toml", "some/where-else/strict.toml"),
        ("my files/strict.toml", None),
        ("x" * 200 + "/strict.toml", None),
    ],
)
async def test_the_tag_of_a_file_of_settings_says_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: str, shown: str | None
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    file = tmp_path / config
    file.parent.mkdir(parents=True)
    file.touch()
    async with Toolbox.open(tmp_path, config=file) as box:
        job = Job("call", {}, **placement(box))
    pack(job)
    assert config_name(job.tags[0]) == (str(tmp_path / shown) if shown else "strict.toml")
    assert config_name("gpu") == ""
