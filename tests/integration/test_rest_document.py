"""The OpenAPI document says what the server does: committed, valid, and no fault is found by schemathesis."""

import asyncio
from typing import Any

import jsonschema
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from lethelog.handlers.http.openapi import document
from lethelog.handlers.http.reference import FOLDER, pages
from lethelog.handlers.http.routes import ROUTES, STREAMED
from lethelog.streams.ending import end
from schemathesis.checks import load_all_checks
from schemathesis.specs.openapi.checks import positive_data_acceptance

from .rest_server import serving_world

EXAMPLES = 4
"""Requests per operation; what was found with many more is mended, and has tests by name."""
NOT_HERE = {"tail", "replay", "export_archive", "rehearse_erasure", "wait_for_pass", "webhooks_test"}
"""Operations that go on for as long as they are told to."""


def test_the_committed_document_and_page_are_what_the_server_gives():
    for name, text in pages().items():
        committed = (FOLDER / name).read_text(encoding="utf-8")
        assert committed == text, "run: python -m lethelog.handlers.http.reference"


def test_every_route_is_described_with_what_it_takes_and_gives():
    described = document()
    operations = {
        operation["operationId"]: operation for path in described["paths"].values() for operation in path.values()
    }
    assert set(operations) == {verb.replace(".", "_") for verb in (*STREAMED, *(route.verb for route in ROUTES))}
    for name, operation in operations.items():
        assert operation["summary"].endswith("."), name
        assert "default" in operation["responses"], name
    body = operations["remember"]["requestBody"]["content"]["application/json"]["schema"]
    assert body["additionalProperties"] is False and body["required"] == ["content"]
    for schema in described["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.slow
async def test_schemathesis_finds_no_fault(world):
    async with serving_world(world) as served:
        token = await served.token()
        running = [asyncio.create_task(runner.run()) for runner in world.runners]
        try:
            problems = await asyncio.to_thread(explore, served.url, token)
        finally:
            for task in running:
                await end(task)
    assert problems == []


def explore(url: str, token: str) -> list[str]:
    """What does not fit between the document and the answers."""
    load_all_checks()
    schema = schemathesis.openapi.from_url(f"{url}/api/v1/openapi.json")
    problems: list[str] = []
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.definition.raw["operationId"] in NOT_HERE:
            continue
        # What is right by its schema may be wrong beside another field: windows, selectors, filters.
        strategy = operation.as_strategy()

        @settings(
            max_examples=EXAMPLES,
            derandomize=True,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=strategy)
        def fits(case: Any) -> None:
            # A pass that nobody carries out is waited for before it is refused.
            for part in (case.query, case.body):
                if isinstance(part, dict):
                    part.pop("wait_seconds", None)
            case.call_and_validate(
                headers={"Authorization": f"Bearer {token}"},
                excluded_checks=[positive_data_acceptance],
                timeout=30,
            )

        try:
            fits()
        except BaseException as error:  # an exception group of all that was found
            problems.append(f"{operation.label}: {error!s:.900}")
    return problems
