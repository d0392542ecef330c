"""`lethelog vault`: the master key is replaced under a memory that stays open."""

import pytest


def test_a_rotation_rewraps_everything_and_retiring_takes_the_old_key_away(own):
    memory = own.remember("Deploys go to Hetzner")
    before = own.json("vault", "status")
    assert [one["tenants"] for one in before["master_keys"]] == [2]  # this tenant, and the installation itself
    after = own.json("vault", "rotate")
    assert after["newest"] != before["newest"]
    assert {one["fingerprint"]: one["tenants"] for one in after["master_keys"]} == {
        after["newest"]: 2,
        before["newest"]: 0,
    }
    assert own.json("show", memory)["content"] == "Deploys go to Hetzner"
    assert own.json("vault", "retire") == {"retired": [before["newest"]]}
    assert own.json("vault", "retire") == {"retired": []}
    assert own.json("show", memory)["content"] == "Deploys go to Hetzner"
    assert own.remember("Logs go to Loki") != memory
    assert own.json("doctor")["ok"] is not False
    assert own.json("vault", "rewrap")["newest"] == after["newest"]


def test_keys_of_a_variable_are_changed_by_whoever_set_it(own, monkeypatch: pytest.MonkeyPatch):
    memory = own.remember("Deploys go to Hetzner")
    file = own.data_dir / "secrets" / "master.key"
    monkeypatch.setenv("LETHELOG_MASTER_KEY", file.read_text().strip())
    file.unlink()
    assert own.json("show", memory)["content"] == "Deploys go to Hetzner"
    refused = own("vault", "rotate", "--json")
    assert refused.error["code"] == "misconfigured" and "vault rewrap" in refused.error["message"]
    assert not file.exists()


def test_a_tenants_key_is_replaced_and_what_is_there_reads_and_is_found_as_before(own):
    memory = own.remember("Deploys go to Hetzner")
    done = own.json("vault", "rotate-tenant")
    assert (done["generation"], done["data_keys"]) == (2, 1)
    assert own.json("show", memory)["content"] == "Deploys go to Hetzner"
    assert own.remember("Deploys go to Hetzner") == memory
    every = own.json("vault", "rotate-tenant", "--all")
    assert every["tenants"] == 2 and every["data_keys"] > 1  # the keys of digests, too
    assert own.json("vault", "rotate-tenant", "--all", "--made-before", "2020-01-01T00:00:00Z") == {
        "tenants": 0,
        "data_keys": 0,
    }
    assert own.json("vault", "status")["unfinished_rotations"] == 0
    assert own.json("show", memory)["content"] == "Deploys go to Hetzner"
    refused = own("vault", "rotate-tenant", "--made-before", "2020-01-01T00:00:00Z", "--json")
    assert refused.error["code"] == "invalid_input" and "--all" in refused.error["message"]
