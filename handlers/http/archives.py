"""Archives over the wire: written to a file of this machine and sent, or received into one and read."""

import asyncio
import contextlib
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import cast, get_args

from fastapi import Request, Response
from starlette.responses import FileResponse
from starlette.types import Receive, Send
from starlette.types import Scope as RequestScope

from ...domain.errors import InvalidInput, NotFound
from ...domain.fields import Input, parse
from ..archive.exporting import ExportArchive
from ..archive.foreign import ForeignFormat, ForeignResult
from ..archive.importing import ImportResult
from ..memory import AsyncMemory
from . import wire
from .endpoint import JSON, UNKEPT, bearer
from .places import InPlace, Places
from .pointing import WHOLE
from .routes import ARCHIVE_HEADER, POSITION_HEADER, Route
from .serving import Serving
from .transfers import Transfers, room_to_write

_LINES = "application/x-ndjson"


class ImportQuery(Input):
    """Whether to tell only what would come."""

    dry_run: bool = False


EXPORT = Route("export_archive", "GET", "/archive", ExportArchive, ImportResult)
IMPORT = Route("import_archive", "POST", "/archive", ImportQuery, ImportResult)
FOREIGN = Route("import_foreign", "POST", "/archive/{source}", ImportQuery, ForeignResult)


class _SentOnce(FileResponse):
    """The whole file, whose folder is gone afterwards, however that ends."""

    def __init__(self, file: Path, transfers: Transfers, headers: Mapping[str, str]) -> None:
        super().__init__(file, media_type=_LINES, filename="lethelog-archive.jsonl", headers=headers)
        self._transfers = transfers

    async def __call__(self, scope: RequestScope, receive: Receive, send: Send) -> None:
        # Part of an archive is none, and a wrong range would end before anything is cleared away.
        whole = {**scope, "headers": [one for one in scope["headers"] if one[0] != b"range"]}
        try:
            await super().__call__(whole, receive, send)
        finally:
            self._transfers.end(Path(self.path).parent)


class Archives:
    """Sends and receives archives."""

    def __init__(self, serving: Serving, places: Places) -> None:
        self._serving = serving
        self._places = places
        self._transfers = Transfers()

    async def export(self, request: Request) -> Response:
        """The archive of the caller's tenant, or of what a filter keeps."""
        memory = self._serving.memory(bearer(request))
        chosen = wire.from_query(EXPORT, request.query_params.multi_items())
        parse(ExportArchive, chosen)
        place = self._places.take(await memory.caller())
        try:
            folder = self._transfers.begin()
        except BaseException:
            place.leave()
            raise
        try:
            file = folder / "archive.jsonl"
            with room_to_write():
                written = await memory.export_archive(file, **chosen)
            said = written.model_copy(update={"file": file.name}).model_dump_json()
            headers = {**UNKEPT, ARCHIVE_HEADER: said, POSITION_HEADER: str(memory.position)}
            return InPlace(_SentOnce(file, self._transfers, headers), place)
        except BaseException:
            place.leave()
            self._transfers.end(folder)
            raise

    async def take_in(self, request: Request) -> Response:
        """Read an archive in that is the body."""
        memory = self._serving.memory(bearer(request))
        caller = await memory.caller()
        # Before gigabytes are taken from somebody who may not.
        caller.require("memory:import")
        caller.require("tenant:admin")
        asked = parse(ImportQuery, wire.from_query(IMPORT, request.query_params.multi_items()))
        with self._places.take(caller), self._folder() as folder:
            file = await _received(request, folder / "archive.jsonl")
            with _said_of_the_body():
                result = await memory.import_archive(file, dry_run=asked.dry_run)
        return _taken(result, memory)

    async def take_over(self, request: Request) -> Response:
        """Read in what another system wrote, which is the body."""
        memory = self._serving.memory(bearer(request))
        caller = await memory.caller()
        caller.require("memory:import")
        source = request.path_params["source"]
        if source not in get_args(ForeignFormat):
            raise NotFound(f"no such format; there are: {', '.join(get_args(ForeignFormat))}")
        asked = parse(ImportQuery, wire.from_query(FOREIGN, request.query_params.multi_items()))
        with self._places.take(caller), self._folder() as folder:
            file = await _received(request, folder / "foreign.json")
            with _said_of_the_body():
                result = await memory.import_foreign(cast(ForeignFormat, source), file, dry_run=asked.dry_run)
        return _taken(result, memory)

    @contextlib.contextmanager
    def _folder(self) -> Generator[Path]:
        folder = self._transfers.begin()
        try:
            with room_to_write():
                yield folder
        finally:
            self._transfers.end(folder)


def _taken(result: ImportResult | ForeignResult, memory: AsyncMemory) -> Response:
    return Response(
        result.model_dump_json(), media_type=JSON, headers={**UNKEPT, POSITION_HEADER: str(memory.position)}
    )


@contextlib.contextmanager
def _said_of_the_body() -> Generator[None]:
    """What is wrong with the file is wrong with what was sent."""
    try:
        yield
    except InvalidInput as error:
        if error.field != "file":
            raise
        raise InvalidInput(WHOLE, error.message.removeprefix("file: ")) from None


async def _received(request: Request, file: Path) -> Path:
    size = 0
    with file.open("wb") as out:
        async for chunk in request.stream():
            size += len(chunk)
            await asyncio.to_thread(out.write, chunk)
    if not size:
        raise InvalidInput(WHOLE, "is empty", "Send the file itself as the body")
    return file
