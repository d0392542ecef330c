"""The page about the MCP server says what the server says."""

from lethelog.handlers.mcp.reference import PAGE, reference


def test_the_page_is_as_the_server_writes_it():
    assert PAGE.read_text(encoding="utf-8") == reference()
