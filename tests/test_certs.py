from __future__ import annotations

import argparse
import json
import os
import queue
import re
import stat
import subprocess

import paho.mqtt.client
import paho.mqtt.enums
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID, NameOID

import brokers
from domkl.agent import certs
from domkl.base.errors import DataError, InputError
from domkl.cli import certs as command


def load(path):
    return x509.load_pem_x509_certificate(path.read_bytes())


def run(*argv):
    """As `domkl certs ...` would, whether or not the command is registered."""
    parser = argparse.ArgumentParser()
    command.add_to(parser.add_subparsers())
    args = parser.parse_args(["certs", *map(str, argv)])
    args.act(args)


def extension(certificate, oid):
    return certificate.extensions.get_extension_for_oid(oid).value


def test_a_certificate_names_its_learner_and_serves_both_ends(tmp_path):
    certs.make(tmp_path, ["a"], hosts=["station.example", "10.0.0.7", "::1"], days=30)
    ca, leaf = load(tmp_path / "ca.pem"), load(tmp_path / "a.pem")
    leaf.verify_directly_issued_by(ca)
    assert [each.value for each in leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["a"]
    names = extension(leaf, ExtensionOID.SUBJECT_ALTERNATIVE_NAME)
    assert names.get_values_for_type(x509.DNSName) == ["a", "localhost", "station.example"]
    assert [*map(str, names.get_values_for_type(x509.IPAddress))] == ["127.0.0.1", "10.0.0.7", "::1"]
    usages = set(extension(leaf, ExtensionOID.EXTENDED_KEY_USAGE))
    assert usages == {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}
    assert extension(ca, ExtensionOID.BASIC_CONSTRAINTS).ca
    assert not extension(leaf, ExtensionOID.BASIC_CONSTRAINTS).ca
    assert (leaf.not_valid_after_utc - leaf.not_valid_before_utc).days == 31


def test_keys_are_p256_and_readable_by_their_owner_only(tmp_path):
    previous = os.umask(0)
    try:
        certs.make(tmp_path, ["a"])
    finally:
        os.umask(previous)
    for name in ("ca.key", "a.key"):
        key = load_pem_private_key((tmp_path / name).read_bytes(), None)
        assert isinstance(key.curve, ec.SECP256R1)
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
        assert (tmp_path / name).read_bytes().startswith(b"-----BEGIN PRIVATE KEY-----")  # PKCS8


def test_what_is_there_is_kept_and_a_removed_certificate_is_renewed_for_its_key(tmp_path):
    first = certs.make(tmp_path, ["a"])
    assert all(each.new for each in first)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    again = certs.make(tmp_path, ["a", "b"])
    assert {each.path.name: each.new for each in again} == {
        "ca.pem": False,
        "ca.key": False,
        "crl.pem": False,
        "a.pem": False,
        "a.key": False,
        "b.pem": True,
        "b.key": True,
    }
    del before[tmp_path / "issued.txt"]
    assert before == {path: path.read_bytes() for path in before}
    (tmp_path / "a.pem").unlink()
    certs.make(tmp_path, ["a"])
    assert (tmp_path / "a.pem").read_bytes() != before[tmp_path / "a.pem"]
    key = load_pem_private_key((tmp_path / "a.key").read_bytes(), None)
    assert (tmp_path / "a.key").read_bytes() == before[tmp_path / "a.key"]
    assert load(tmp_path / "a.pem").public_key() == key.public_key()


@pytest.mark.parametrize(
    ("names", "changes", "text"),
    [
        (["a/b"], {}, "learner is 'a/b'"),
        (["../a"], {}, "learner is '../a'"),
        (["ca"], {}, "learner is 'ca'"),
        (["a"], {"days": 0}, "days is 0; expected 1 to 3650"),
        (["a"], {"hosts": ["é"]}, "host is 'é'"),
    ],
)
def test_what_cannot_be_a_certificate_is_refused(tmp_path, names, changes, text):
    with pytest.raises(InputError, match=text):
        certs.make(tmp_path, names, **changes)
    assert not (tmp_path / "a.pem").exists()


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (lambda place: (place / "ca.key").unlink(), "ca.pem is there but ca.key is not"),
        (lambda place: (place / "ca.pem").unlink(), "ca.key is there but ca.pem is not"),
        (lambda place: (place / "ca.key").write_text("x"), "ca.key is not a usable key"),
        (lambda place: (place / "ca.pem").write_text("x"), "ca.pem is not a certificate"),
    ],
)
def test_a_damaged_ca_is_not_replaced(tmp_path, damage, text):
    certs.make(tmp_path, ["a"])
    damage(tmp_path)
    with pytest.raises(DataError, match=text):
        certs.make(tmp_path, ["b"])


def test_the_command_says_what_it_made_and_what_it_kept(tmp_path, capsys):
    run(tmp_path, "a", "operator", "--host", "10.0.0.7")
    out = capsys.readouterr().out
    assert f"made {tmp_path}/operator.key" in out
    assert "ca.key stays with you" in out
    run(tmp_path, "a", "--json")
    document = json.loads(capsys.readouterr().out)
    assert document[f"{tmp_path}/a.key"] == "kept"
    run(tmp_path, "a")
    assert f"kept {tmp_path}/a.key: it exists and is not overwritten" in capsys.readouterr().out


def test_a_broker_comes_with_its_configuration(tmp_path, capsys):
    run(tmp_path, "a", "--broker", "--network", "field", "--host", "10.0.0.7", "--json")
    document = json.loads(capsys.readouterr().out)
    assert set(document.values()) == {"made"}
    assert {"broker.pem", "broker.key", "mosquitto.conf", "mosquitto.acl"} <= set(os.listdir(tmp_path))
    acl = (tmp_path / "mosquitto.acl").read_text().splitlines()
    assert acl == ["pattern write domkl/field/%u/#", "pattern read domkl/field/#"]
    for line in ("require_certificate true", "use_identity_as_username true", "allow_anonymous false"):
        assert line in (tmp_path / "mosquitto.conf").read_text().splitlines()
    assert re.findall(r"(?m)^listener .*", (tmp_path / "mosquitto.conf").read_text()) == [
        "listener 8883 10.0.0.7"
    ]
    hosts = [
        extension(load(tmp_path / f"{name}.pem"), ExtensionOID.SUBJECT_ALTERNATIVE_NAME)
        for name in ("broker", "a")
    ]
    assert ["10.0.0.7" in map(str, each.get_values_for_type(x509.IPAddress)) for each in hosts] == [
        True,
        False,
    ]


@pytest.mark.skipif(brokers.MOSQUITTO is None, reason="mosquitto is not installed")
def test_mosquitto_starts_with_that_configuration(tmp_path):
    with brokers.running(tmp_path, tls=True) as broker:
        assert broker.process.poll() is None
        # the line that says what is wrong with a file; the probe that waits for the port logs another
        assert ": Error:" not in broker.log.read_text()


@pytest.mark.skipif(brokers.MOSQUITTO is None, reason="mosquitto is not installed")
def test_the_broker_lets_sensors_use_their_topics_and_no_others(tmp_path):
    run(tmp_path, "a", "sensor", "--broker", "--topic", "sensors/#")
    for topic in ("domkl/#", "#", "", "sensors/#\ntopic readwrite #"):
        with pytest.raises(InputError, match="expected one such as sensors/#"):
            certs.mosquitto_acl("domkl", [topic])
    with pytest.raises(InputError, match="--topic is given without --broker"):
        run(tmp_path, "b", "--topic", "sensors/#")
    got = queue.Queue()
    with brokers.running(tmp_path, tls=True) as broker:
        clients = {
            name: paho.mqtt.client.Client(paho.mqtt.enums.CallbackAPIVersion.VERSION2)
            for name in ("a", "sensor")
        }
        clients["a"].on_connect = lambda client, *_: client.subscribe("#")
        clients["a"].on_subscribe = lambda *_: got.put("ready")
        clients["a"].on_message = lambda client, _, message: got.put(message.topic)
        for name, client in clients.items():
            client.tls_set(tmp_path / "ca.pem", tmp_path / f"{name}.pem", tmp_path / f"{name}.key")
            client.connect("127.0.0.1", broker.port)
            client.loop_start()
            if name == "a":
                assert got.get(timeout=10) == "ready"
        try:
            for topic in ("other/x", "domkl/domkl/a/state", "sensors/sensor/env"):
                clients["sensor"].publish(topic, b"1", qos=1)
            assert got.get(timeout=10) == "sensors/sensor/env"
        finally:
            for client in clients.values():
                client.disconnect()
                client.loop_stop()


@pytest.mark.skipif(os.name != "posix", reason="openssl's command line is not here")
def test_openssl_agrees(tmp_path):
    certs.make(tmp_path, ["a"])
    try:
        done = subprocess.run(
            ["openssl", "verify", "-x509_strict", "-CAfile", tmp_path / "ca.pem", tmp_path / "a.pem"],
            capture_output=True,
            text=True,
        )
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    assert done.returncode == 0, done.stderr
