"""Opening what a server serves: the parts of an installation, and who may in."""

from collections.abc import AsyncGenerator, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from ..handlers.http.serving import Serving
from ..handlers.operating.workers import Role
from .local import open_credentials, open_extractor, open_judge_named, open_memory, open_pass_settings
from .settings import Settings


@asynccontextmanager
async def serving(settings: Settings, roles: Collection[Role]) -> AsyncGenerator[Serving]:
    """Servers, schema, keys and these background roles, while the block runs.

    Raises `AccessDenied` where the process shows a token, which serves one tenant and no installation.
    """
    async with AsyncExitStack() as stack:
        door = await stack.enter_async_context(await open_memory(settings.of_installation(), roles))
        (await door.caller()).require("installation:admin")
        passes = open_pass_settings(settings, door.engine)
        stack.push_async_callback(passes.judge.close)
        extractor = open_extractor(settings)
        if extractor is not None:
            stack.push_async_callback(extractor.close)
        yield Serving(
            engine=door.engine,
            credentials=open_credentials(door.engine, settings),
            passes=passes,
            broker=door.broker,
            judge_named=partial(open_judge_named, settings),
            extractor=extractor,
        )
