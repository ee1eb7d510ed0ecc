"""A code reviewer: it reads a git diff and the files around it, and writes its findings to review.md.

It shows structured output (`schema=`), a tool of your own, and a model that can only read: in the mode `observer` no
call may change anything. This program, not the model, writes review.md, and it checks that each finding quotes a line
that is really in the file.

    python examples/review_diff.py --model anthropic:NAME          # the changes since the last commit
    python examples/review_diff.py --model ollama:qwen3 --repo ../shop --base main
"""

import argparse
import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field

from toolcrib import Toolbox, ToolcribError, safe, tool
from toolcrib.agent import Agent

TASK = """Review the change that the tool `diff` returns. Read the changed files, and what calls them, before you judge.
Report mistakes only: wrong results, crashes, lost data, security. No remarks on style. No findings is a good answer."""
GIT = ["git", "-c", "core.fsmonitor=false"]  # a repository's own settings must not start programs


class Finding(BaseModel):
    file: str = Field(description="Path of the file, from the root of the repository.")
    quote: str = Field(description="One line of the file, exactly as it is there.")
    severity: Literal["high", "medium", "low"]
    problem: str = Field(description="What goes wrong, and with which input.")
    advice: str = Field(description="How to mend it.")


class Review(BaseModel):
    summary: str = Field(description="What the change does, in one or two sentences.")
    findings: list[Finding]


def git_diff(repo: Path, base: str) -> str:
    """Return the changes since a commit. Raises ToolcribError."""
    command = [*GIT, "diff", "--relative", "--no-ext-diff", "--no-textconv", "--end-of-options", base, "--"]
    try:
        done = subprocess.run(command, cwd=repo, capture_output=True, check=False)
    except OSError as error:
        raise ToolcribError(f"git cannot be started in {repo}: {error.strerror}") from None
    if done.returncode:
        raise ToolcribError(done.stderr.decode(errors="replace").strip())
    return done.stdout.decode(errors="replace")


def place(repo: Path, finding: Finding) -> str:
    """Return the file and line of a finding's quote; without a line number if the quote is not in the file."""
    path = (repo / finding.file).resolve()
    if path.is_relative_to(repo) and path.is_file() and finding.quote.strip():
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if finding.quote.strip() in line:
                return f"{finding.file}:{number}"
    return f"{finding.file} (the quoted line is not there: doubt this finding)"


def as_markdown(repo: Path, review: Review) -> str:
    """Return a review as the text of review.md."""
    parts = [f"# Review\n\n{review.summary}\n"]
    for finding in sorted(review.findings, key=lambda each: ["high", "medium", "low"].index(each.severity)):
        parts.append(f"## {finding.severity}: {place(repo, finding)}\n\n    {finding.quote.strip()}\n")
        parts.append(f"{finding.problem}\n\n{finding.advice}\n")
    return "\n".join(parts if review.findings else [*parts, "No findings.\n"])


async def main() -> int:
    parser = argparse.ArgumentParser(description="Review a change.")
    parser.add_argument("--model", help="for example anthropic:NAME, ollama:NAME; by default the first one found")
    parser.add_argument("--repo", type=Path, default=Path(), help="the repository; by default this folder")
    parser.add_argument("--base", default="HEAD", help="the commit to compare with; by default the last one")
    parser.add_argument("--out", type=Path, default=Path("review.md"), help="the file to write")
    args = parser.parse_args()
    repo = args.repo.resolve()
    text = git_diff(repo, args.base)
    if not text.strip():
        print(f"There are no changes since {args.base}.")
        return 0

    @tool(category="filesystem_read")
    def diff() -> str:
        """The change to review, as a unified diff."""
        return text

    async with Toolbox.open(repo, mode="observer", tools=[diff]) as box, await Agent.open(box, args.model) as agent:
        outcome = await agent.run(TASK, schema=Review.model_json_schema())
    if outcome.state != "done":
        raise ToolcribError(f"there is no review: {outcome.reason or outcome.state}")
    review = Review.model_validate(outcome.data)
    args.out.write_text(as_markdown(repo, review))
    print(safe(f"{len(review.findings)} findings in {args.out}. {review.summary}"))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main()))
    except ToolcribError as error:
        sys.exit(f"review_diff: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
