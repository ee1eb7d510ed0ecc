"""An agent's batch of calls in a temporary workspace, with a person (here: a function) asked before a deletion."""

import asyncio
import tempfile
from pathlib import Path

from toolcrib import ApprovalRequest, Decision, Toolbox


async def ask(request: ApprovalRequest) -> Decision:
    print(f"[asked] {request.tool}: {request.reason}\n{request.preview}")
    return Decision(approve=request.arguments.get("path") != "keep.txt", reason="keep.txt stays", approver="example")


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "keep.txt").write_text("precious\n")
        Path(folder, "old.txt").write_text("stale\n")
        async with Toolbox.open(workspace=folder, approve=ask) as box:
            outputs = await box.call_many(
                [
                    {"id": "1", "name": "list_dir", "arguments": {}},
                    {"id": "2", "name": "delete_file", "arguments": {"path": "old.txt"}},
                    {"id": "3", "name": "delete_file", "arguments": {"path": "keep.txt"}},
                    {"id": "4", "name": "read_file", "arguments": {"path": "keep.txt"}},
                ]
            )
            for output in outputs:
                print("---", "error" if output.is_error else "ok")
                print(output)


if __name__ == "__main__":
    asyncio.run(main())
