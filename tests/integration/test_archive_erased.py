"""Archives and erasure: what was erased stays so whatever an older file holds, and the files are named (F08)."""

import hashlib
from uuid import UUID

import pytest
from lethelog.domain.errors import Erased
from lethelog.handlers.erasure.erasures import Erasures
from lethelog.handlers.erasure.means import ErasureMeans
from lethelog.handlers.erasure.views import ErasureView

from .archives import body_of, bring_in, export, lines_of


async def erase(world, *, re_entry: str = "none", **what) -> ErasureView:
    erasures = Erasures(world.engine)
    await world.catch_up()
    preview = await erasures.preview(world.caller, what)
    asked = {"erasure_id": preview.id, "reason": "asked_for", "re_entry": re_entry}
    done = await erasures.erase(world.caller, asked)
    assert done.verified, done.remaining
    return done


def given_the_ledger_of(world, other) -> None:
    """An installation made anew after a loss, with the ledger that was kept."""
    assert isinstance(other.engine.erasure, ErasureMeans)
    other.engine.erasure.ledger.path = world.engine.erasure.ledger.path


async def contents(world) -> set[str]:
    await world.catch_up()
    page = await world.reading.list(world.caller, {"status": "all", "limit": 100})
    return {one.content for one in page.memories}


async def test_f08_what_was_erased_since_stays_erased_where_it_was_erased(lived_world, made, archive):
    done = await erase(lived_world, memory_id=made["first"])
    before = await lived_world.engine.log.head()
    result = await bring_in(lived_world, archive)
    assert {(one.id, one.action) for one in result.items} == {
        (made[name], "erased") for name in ("first", "second", "archived")
    }, "the lineage, and what was derived from it"
    assert done.memories == 3 and await lived_world.engine.log.head() == before
    with pytest.raises(Erased):
        await lived_world.get(made["second"])


async def test_f08_an_installation_that_never_held_it_refuses_what_its_ledger_names(
    lived_world, elsewhere, made, archive, tmp_path
):
    await erase(lived_world, memory_id=made["stale"])
    given_the_ledger_of(lived_world, elsewhere)
    result = await bring_in(elsewhere, archive)
    refused = {(one.kind, one.id, one.action) for one in result.items}
    assert refused == {("memory", made["stale"], "erased"), ("proposal", made["open"], "refused")}
    assert result.count("imported") > 20
    there = await contents(elsewhere)
    assert "Uses Python 3.8" not in there and "Likes green tea" in there
    assert not await elsewhere.engine.log.read_stream(elsewhere.caller.tenant, made["stale"])


async def test_what_is_left_of_it_moves_to_an_installation_with_the_same_ledger(
    lived_world, elsewhere, made, tmp_path
):
    await erase(lived_world, memory_id=made["stale"])
    given_the_ledger_of(lived_world, elsewhere)
    skeleton = await export(lived_world, tmp_path / "t1.jsonl")
    assert "Uses Python 3.8" not in skeleton.read_text()
    assert (await bring_in(elsewhere, skeleton)).items == ()
    assert (await bring_in(elsewhere, skeleton)).count("present") > 20
    assert body_of(skeleton) == body_of(await export(elsewhere, tmp_path / "again.jsonl"))
    with pytest.raises(Erased):
        await elsewhere.get(made["stale"])


async def test_a_whole_tenant_that_was_erased_comes_back_nowhere(world, elsewhere, tmp_path):
    await world.remember("Likes green tea")
    archive = await export(world, tmp_path / "t0.jsonl")
    await erase(world, tenant=True)
    given_the_ledger_of(world, elsewhere)
    result = await bring_in(elsewhere, archive)
    assert result.counts["memory"] == {"erased": 1} and await contents(elsewhere) == set()


@pytest.mark.parametrize("moved_in", [False, True])
async def test_a_text_that_an_erasure_keeps_out_comes_in_quarantined(world, elsewhere, tmp_path, moved_in):
    """As `remember` would have it; whoever refuted and released it elsewhere did not decide here."""
    text = "Orla works at Pell & Co"
    at_work = await elsewhere.remember(text, scope="work")
    early = await export(elsewhere, tmp_path / "early.jsonl")
    wrong = await elsewhere.remember(text)
    await elsewhere.commands.refute(elsewhere.caller, {"memory_id": wrong})
    released = await elsewhere.remember(text)
    await elsewhere.commands.release(elsewhere.caller, {"memory_id": released, "reason": "she does"})
    archive = await export(elsewhere, tmp_path / "late.jsonl")
    if moved_in:
        await bring_in(world, early)
    mine = at_work if moved_in else await world.remember(text)
    done = await erase(world, re_entry="block", memory_id=mine)
    assert done.blocked == 1
    await bring_in(world, archive)
    assert (await world.get(released)).status == "quarantined"
    again = await world.commands.remember(world.caller, {"topic": "t", "content": text, "scope": "home"})
    assert again.memory.status == "quarantined", "the digest is there still"


async def test_the_certificate_names_the_archives_that_may_hold_it(world, tmp_path):
    mine = await world.remember("Likes tea", user_id="ada")
    await world.remember("Likes coffee", user_id="bob")
    for name, which in (("all", {}), ("ada", {"user_id": "ada"}), ("bob", {"user_id": "bob"})):
        await export(world, tmp_path / f"{name}.jsonl", **which)
    await export(world, tmp_path / "shape.jsonl", content=False)
    done = await erase(world, memory_id=mine)
    await export(world, tmp_path / "later.jsonl")
    named = [tmp_path / "all.jsonl", tmp_path / "ada.jsonl"]
    expected = [(UUID(lines_of(one)[0]["archive"]), hashlib.sha256(one.read_bytes()).hexdigest()) for one in named]
    assert [(one.archive, one.sha256) for one in done.exports] == expected and done.exports_count == 2
    assert done.certificate is not None
    said = done.certificate["statement"]["exports"]
    assert said["count"] == 2 and [one["sha256"] for one in said["archives"]] == [digest for _, digest in expected]
