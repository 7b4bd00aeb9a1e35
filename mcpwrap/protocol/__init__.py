"""The MCP stdio protocol as mcpwrap must understand it: bytes and a time in, ordered actions out.

Nothing here does I/O. `interposer.Interposer` is the one facade; read it first, then `window.py`
(every state a call can be in) and `calls.py` (who waits for whom).
"""
