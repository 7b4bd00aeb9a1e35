"""Run by a server's own interpreter: the SDK installed there calls one tool through the given command.

`sdk_call.py JSON`: {"command": [...], "env": {...}, "cwd": "...", "tool": "...", "arguments": {...}}; prints
the SDK's version and the result's text.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
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
    async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        tools = await session.list_tools()
        result = await session.call_tool(asked["tool"], asked["arguments"])
    print(
        json.dumps(
            {
                "sdk": importlib.metadata.version("mcp"),
                "tools": len(tools.tools),
                "text": [block.text for block in result.content if block.type == "text"],
            }
        )
    )


asyncio.run(asyncio.wait_for(main(json.loads(sys.argv[1])), SECONDS))
