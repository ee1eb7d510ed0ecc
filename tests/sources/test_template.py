"""Which templates are accepted, and that no value is anything but one argument."""

import json
import subprocess

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolcrib.core.errors import ToolDefinitionError, ToolError
from toolcrib.sources.template import MAX_ARGUMENT_BYTES, command_template

GOOD = {
    "grep -n {{a}} --file={{b}} > {{c}}": 'grep -n "${1}" --file="${2}" > "${3}"',
    "echo {{a}}{{b}} {{ a }}": 'echo "${1}""${2}" "${1}"',
    "env X=1 ls -- {{a}}": 'env X=1 ls -- "${1}"',
    "[ {{a}} = 1 ] && echo {{b}}": '[ "${1}" = 1 ] && echo "${2}"',
    "if [ ! -e {{a}} ]; then cat {{b}}; fi": 'if [ ! -e "${1}" ]; then cat "${2}"; fi',
    "awk '{print $1}' {{a}}": "awk '{print $1}' \"${1}\"",
    "docker ps --format '{{.ID}}' {{a}}": "docker ps --format '{{.ID}}' \"${1}\"",
    "bash -c 'echo \"$1\"' name {{a}}": 'bash -c \'echo "$1"\' name "${1}"',
    "sh script.sh {{a}}": 'sh script.sh "${1}"',
    "NAME={{a}} ls": 'NAME="${1}" ls',
    "case {{a}} in x) echo {{b}};; esac": 'case "${1}" in x) echo "${2}";; esac',
    "{ sort {{a}}; } < {{b}} | wc -l": '{ sort "${1}"; } < "${2}" | wc -l',
}

BAD = [
    # inside quotes
    "echo '{{a}}'", 'echo "{{a}}"', 'echo "x {{a}} y"', "echo $'{{a}}'", 'echo $"{{a}}"', "echo \\{{a}}",
    # where a shell reads more than a word
    "echo $(ls {{a}})", "echo `ls {{a}}`", 'echo "$(ls {{a}})"', "diff <(ls {{a}}) x", "echo ${x:-{{a}}}",
    "echo # {{a}}", "cat <<E\n{{a}}\nE\n", "cat <<'E'\n{{a}}\nE\n", "cat << {{a}}", "ls >&{{a}}",
    # where a value would say what runs
    "{{a}}", "{{a}} x", "x{{a}} y", "true; {{a}}", "true && {{a}} x", "env {{a}}", "xargs {{a}}",
    "echo x | xargs -0 {{a}}", "timeout 5 {{a}}",
    "find . -exec {{a}} \\;", "bash -c {{a}}", "sh -c {{a}} x", "nice {{a}}", "sh {{a}}", "bash -x {{a}} {{b}}",
    "ssh host {{a}}",
    "ssh -p 22 host ls {{a}}", "echo {{a}} | sh", "eval {{a}}", "trap {{a}} EXIT",
    # where bash evaluates a value: arithmetic, subscripts, names of variables
    "echo $(( {{a}} ))", "(( {{a}} ))", "[[ {{a}} -eq 1 ]]", "let {{a}}", "declare {{a}}", "export {{a}}",
    "printf -v {{a}} x", "printf {{a}} {{b}} {{c}}", "printf -{{a}} {{b}} x", "read {{a}}", "unset {{a}}",
    "[ {{a}} {{b}} ]", "[ -v {{a}} ]", "test {{a}} = 1 -a {{b}} = 2",
    "[ x {{a}} y ]", "for ((i={{a}};;)); do :; done",
    # what could be evaluated later, or mixes up the values
    "A={{a}}", "A={{a}}; eval $A", "x=({{a}})", "x[{{a}}]=1 ls", "for x in {{a}}; do $x; done", "f() { cat {{a}}; }; f",
    "set -- x; echo {{a}}", "shift; echo {{a}}", "echo $1 {{a}}", 'echo "$@" {{a}}',
    # not shell at all
    "", "  ", "echo {{a}} 'x", "if {{a}}", "echo \0", "echo 'x", 'echo "x', "if true", "ls |", "(ls", "echo $(ls",
]  # fmt: skip

SHAPES = [
    "printf '%s\\0' {{a}} x{{b}}y",
    "printf '%s\\0' -- {{b}} {{a}} | cat",
    "if [ {{a}} = {{b}} ]; then printf '%s\\0' {{a}}; else printf '%s\\0' {{a}} {{b}}; fi",
    "cat <<< {{a}}; printf '%s\\0' --x={{b}}",
]

NASTY = [
    "{{b}}", "{{ b }}", "; echo PWNED #", "$(echo PWNED)", "`echo PWNED`", "'", '"', "'; echo PWNED; '", "*", "~", "",
    "\n echo PWNED\n", "-rf", "--", "--help", "$HOME", "${1}", '"${2}"', "\\", "\\\n", "|", "&", ">PWNED", " ", "\t",
    "a[$(echo PWNED)]", "é𝄞", "!!", "#", "=", "{a,b}", "zq0z",
]  # fmt: skip
VALUES = st.one_of(
    st.sampled_from(NASTY),
    st.lists(st.sampled_from([*NASTY, "x"]), max_size=4).map("".join),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40),
)


@pytest.mark.parametrize(("text", "script"), GOOD.items())
def test_placeholders_become_positional_parameters(text: str, script: str) -> None:
    assert command_template(text).script == script


@pytest.mark.parametrize("text", BAD)
def test_placeholders_where_a_value_could_be_more_than_an_argument_are_refused(text: str) -> None:
    with pytest.raises(ToolDefinitionError):
        command_template(text)


def test_a_refusal_names_the_placeholder() -> None:
    with pytest.raises(ToolDefinitionError, match=r"\{\{name\}\} is inside quotes"):
        command_template("echo 'hello {{name}}'")


def run(script: str, values: list[str]) -> list[str]:
    done = subprocess.run(["/bin/bash", "-c", script, "t", *values], capture_output=True, check=False, timeout=30)
    return done.stdout.decode().split("\0")


@given(VALUES, VALUES)
@example("{{b}}", "; echo PWNED #")
def test_the_shell_gets_each_value_as_one_argument(a: str, b: str) -> None:
    template = command_template(SHAPES[0])
    assert run(template.script, template.arguments({"a": a, "b": b})) == [a, f"x{b}y", ""]


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_judged_is_what_runs(shape: str) -> None:
    """The bound command line, run as it stands, prints what the script with its positional parameters prints."""
    template = command_template(shape)
    for value in NASTY:
        values = {"a": value, "b": f"{value} and {{{{a}}}}"}
        assert run(template.bound(values), []) == run(template.script, template.arguments(values)), value


@given(st.dictionaries(st.sampled_from(["a", "b"]), VALUES, min_size=2))
def test_binding_puts_each_value_in_once(values: dict[str, str]) -> None:
    import shlex

    assert shlex.split(command_template("x {{a}} y{{b}}").bound(values)) == ["x", values["a"], "y" + values["b"]]


@pytest.mark.parametrize("value", [3, -5, 2.5, True, None, ["a", "'"], {"k": "$(id)"}])
def test_other_values_are_json(value: object) -> None:
    template = command_template("x {{a}}")
    assert [json.loads(text) for text in template.arguments({"a": value})] == [value]


@pytest.mark.parametrize(
    ("value", "why"),
    [("a\0b", "NUL"), ("\ud800", "surrogate"), ("x" * (MAX_ARGUMENT_BYTES + 1), "bytes")],
)
def test_what_no_argument_can_hold_is_a_clear_error(value: str, why: str) -> None:
    template = command_template("x {{a}}")
    for take in (template.arguments, template.bound):
        with pytest.raises(ToolError, match=why):
            take({"a": value})


def test_a_missing_value_is_an_error_and_never_left_in_place() -> None:
    with pytest.raises(ToolError, match="b is missing"):
        command_template("x {{a}} {{b}}").arguments({"a": "1"})
