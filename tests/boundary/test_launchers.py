"""The files that launchers look for by fixed names."""

import pytest

from toolcrib.boundary.launchers import looked_for_by, named_after


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
        ("pnpm vite", "vite.config.js"),
        ("python -m gunicorn a", "gunicorn.conf.py"),
    ],
)
def test_launchers_of_other_languages_count(command: str, name: str) -> None:
    assert name in looked_for_by(command.split())


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("serena start", "serena"),
        ("/opt/a-server --stdio", "a-server"),
        ("npx -y @scope/some@1.2", "some"),
        ("uv run --with x srv", "srv"),
        ("env A=1 sed", "sed"),
        ("python3 srv.py", None),
        ("docker run -i --rm", None),
        ("npm start", None),
        ("git fetch", None),
    ],
)
def test_files_with_the_name_of_a_program_without_a_row_are_its_own(command: str, program: str | None) -> None:
    names = named_after(command.split())
    assert (f".{program}rc*" in names and f".config/{program}" in names) if program else not names
