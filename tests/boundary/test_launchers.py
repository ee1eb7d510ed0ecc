"""The files that launchers look for by fixed names."""

import pytest

from toolcrib.boundary.launchers import looked_for_by


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("mvn exec:java", "pom.xml"),
        ("dotnet run --project a", "Directory.Build.targets"),
        ("bunx a", ".npmrc"),
        ("pipx run --spec a==1 srv", "srv"),
        ("./gradlew run", "gradle"),
        ("./mvnw exec:java", ".mvn"),
        ("task serve", "Taskfile.yml"),
        ("node --run start", "package.json"),
        ("pnpx a", ".pnpmfile.cjs"),
        ("flask run", "app.py"),
        ("dotnet tool run a", ".config/dotnet-tools.json"),
        ("honcho start", "Procfile"),
    ],
)
def test_launchers_of_other_languages_count(command: str, name: str) -> None:
    assert name in looked_for_by(command.split())
