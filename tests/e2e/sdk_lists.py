"""The official SDK calls before it lists, lists twice, and calls again: what it then knows, as one JSON object.

`sdk_lists.py JSON`: {"command": [...], "env": {...}, "cwd": "...", "path": "..."}.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

SECONDS = 60


async def main(asked: dict[str, Any]) -> None:
    parameters = StdioServerParameters(
        command=asked["command"][0], args=asked["command"][1:], env=asked["env"], cwd=asked["cwd"]
    )
    said: list[list[str]] = []
    listed: list[dict[str, str | None]] = []
    async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
        await session.initialize()

        async def call() -> None:
            result = await session.call_tool("read", {"path": asked["path"]})
            said.append([block.text for block in result.content if block.type == "text"])

        await call()
        for _ in range(3):
            listed.append({tool.name: tool.description for tool in (await session.list_tools()).tools})
        await call()
    print(json.dumps({"said": said, "listed": listed}))


asyncio.run(asyncio.wait_for(main(json.loads(sys.argv[1])), SECONDS))
