"""Revoked certificates: a list that agents and brokers read."""

from __future__ import annotations

import asyncio
import os
import subprocess

import pytest

import brokers
import inmemory
from domkl import cli
from domkl.agent import Agent, certs
from domkl.agent.config import TransportSection
from domkl.agent.transports import TransportSettings, make
from domkl.base.errors import DataError, InputError
from nets import NETWORK, linked, needs_mosquitto, network, own, run, settle

pytest.importorskip("cryptography")


@pytest.fixture
def folder(tmp_path):
    certs.make(tmp_path / "certs", ["a", "b", "c"])
    return tmp_path / "certs"


def names(folder):
    return sorted({entry.name for entry in certs.read_list(folder / "crl.pem", folder / "ca.pem")})


def test_revoking_adds_every_certificate_of_a_name(folder, capsys):
    assert names(folder) == []
    (folder / "b.pem").unlink()
    certs.make(folder, ["b"])  # renewed: the one before is still valid
    assert cli.main(["certs", str(folder), "revoke", "b"]) == 0
    assert f"Copy {folder}/crl.pem to every learner" in capsys.readouterr().out
    assert cli.main(["certs", str(folder), "revoke", "c"]) == 0
    assert cli.main(["certs", str(folder), "revoke", "c"]) == 0  # again changes nothing
    assert names(folder) == ["b", "c"]
    assert len(certs.read_list(folder / "crl.pem", folder / "ca.pem")) == 3
    assert (folder / "crl.pem").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["revoke"], "nobody is named"),
        (["revoke", "z"], "'z' has no certificate here"),
        (["b"], "'b' was revoked"),
    ],
)
def test_what_cannot_be_revoked_or_made_again_is_one_line(folder, capsys, argv, text):
    certs.revoke(folder, ["b"])
    (folder / "b.pem").unlink()
    assert cli.main(["certs", str(folder), *argv]) == 2
    assert text in capsys.readouterr().err
    assert not (folder / "b.pem").exists()


def test_a_directory_without_a_ca_is_not_made_one(tmp_path):
    with pytest.raises(InputError, match=r"has no ca\.key"):
        certs.revoke(tmp_path / "none", ["a"])
    assert not (tmp_path / "none").exists()


def test_openssl_reads_the_list(folder):
    certs.revoke(folder, ["b"])
    for name, expected in (("a", 0), ("b", 2)):
        command = [
            "openssl",
            "verify",
            "-crl_check",
            "-CAfile",
            "ca.pem",
            "-CRLfile",
            "crl.pem",
            f"{name}.pem",
        ]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True)
        except FileNotFoundError:
            pytest.skip("openssl is not installed")
        assert done.returncode == expected, done.stderr


def test_a_changed_list_is_read_again_and_a_bad_one_refused(folder, stranger, log):
    revoked = certs.Revoked(str(folder / "crl.pem"), str(folder / "ca.pem"))
    assert revoked.names == frozenset()
    certs.revoke(folder, ["b"])
    revoked.reload()
    assert revoked.names == {"b"}
    good = (folder / "crl.pem").read_bytes()
    for bad in (b"", b"-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n", good[:200], None):
        content = (stranger / "crl.pem").read_bytes() if bad is None else bad
        (folder / "crl.pem").write_bytes(content)
        revoked.reload()
        assert revoked.names == {"b"}
    os.unlink(folder / "crl.pem")
    revoked.reload()
    assert revoked.names == {"b"}
    refused = [line for line in log() if line["event"] == "list of revoked certificates refused"]
    assert len(refused) == 5
    with pytest.raises(InputError, match=r"\[transport\] revoked: "):
        certs.Revoked(str(folder / "crl.pem"), str(folder / "ca.pem"))
    with pytest.raises(DataError, match="was not signed by"):
        certs.read_list(stranger / "crl.pem", folder / "ca.pem")


def test_an_agent_refuses_a_revoked_neighbour_and_goes_on(folder, monkeypatch):
    monkeypatch.setattr("domkl.agent.messages.LOOK_EVERY", 0.05)
    files = {key: str(folder / name) for key, name in (("ca", "ca.pem"), ("cert", "a.pem"), ("key", "a.key"))}
    section = TransportSection(kind="memory", revoked=str(folder / "crl.pem"), **files)
    rounds = inmemory.RoundSection(deadline=0.3, start=5.0, resend=0.1)

    async def main():
        made = []
        for name, near, transport in (("a", "b", section), ("b", "a", TransportSection(kind="memory"))):
            X, y = inmemory.np.ones((2000, inmemory.d)), inmemory.np.ones(2000)
            stream = inmemory.aiter_of(inmemory.paced(X, y, 0.01), inmemory.d)
            config = inmemory.config(name, near, transport=transport, rounds=rounds)
            made.append(Agent(config, stream=stream, out=lambda said: None))
        a = made[0]
        tasks = [asyncio.create_task(agent.run()) for agent in made]
        await inmemory.until(lambda: a.learner.round > 3)
        certs.revoke(folder, ["b"])
        await inmemory.until(lambda: a.refused["revoked"] > 3)
        await inmemory.until(lambda: a.learner.neighbours == ())
        before = a.learner.round
        await inmemory.until(lambda: a.learner.round > before + 3)
        for agent in made:
            agent.stop()
        await asyncio.gather(*tasks)
        return a.connection._admitted[0]

    assert asyncio.run(main()) == set()  # so that Zenoh's rules admit nobody either


def test_zenoh_receives_nothing_from_who_is_no_longer_admitted(authority):
    async def main(net):
        async with net.learners("a", "b", "c") as (a, b, c):
            b.subscribe(f"domkl/{NETWORK}/#")
            await linked(a, b)
            await linked(c, b)  # or c, half connected, may stay with Zenoh's closed session for ever
            await b.admit(("c",))
            await settle(b)  # what came before
            await linked(c, b)
            for _ in range(5):
                a.publish(own(a, "theta"), b"no longer")
                assert await settle(b, 0.05) == []

    with network("zenoh+tls", authority) as net:
        run(main(net))


@needs_mosquitto
def test_mosquitto_refuses_a_revoked_certificate(folder):
    certs.revoke(folder, ["b"])

    def settings(name):
        files = {"ca": f"{folder}/ca.pem", "cert": f"{folder}/{name}.pem", "key": f"{folder}/{name}.key"}
        return TransportSettings("mqtt", "net", name, broker=broker.address, **files)

    async def main():
        good = make(settings("a"))
        await good.open()
        await good.close()
        with pytest.raises(InputError, match="cannot be used"):
            await make(settings("b")).open()

    with brokers.running(folder, tls=True, network="net") as broker:
        asyncio.run(main())
