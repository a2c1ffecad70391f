"""Who may talk to whom: keys, roles, garbage."""

import asyncio
import os
import shutil
import socket
import stat
from pathlib import Path

import pytest
import zmq
import zmq.asyncio
import zmq.auth

from audit.events import read_events
from queues.client import QueueClient, QueueTimeout
from queues.endpoint import Endpoint, QueueError, connect_dealer, read_endpoint
from queues.keys import ROLES, KeysError, Role, create_keys, load_pair, load_public
from queues.link import WorkerLink
from queues.messages import (
    CloseSession,
    GetStatus,
    Heartbeat,
    Refused,
    Result,
    SessionOpened,
    StatusReply,
    Test,
    WorkerHello,
    encode,
)
from tests.queues.conftest import Run, opening, status, submit, until
from tests.queues.test_round_trip import working


def test_keys_are_private_and_in_the_format_of_zeromq(tmp_path: Path):
    keys = tmp_path / "keys"
    create_keys(keys)
    assert stat.S_IMODE(keys.stat().st_mode) == stat.S_IMODE((keys / "secret").stat().st_mode) == 0o700
    publics = set()
    for role in ROLES:
        path = keys / "secret" / f"{role}.key_secret"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert load_pair(keys, role) == zmq.auth.load_certificate(path)
        assert load_public(keys, role) == load_pair(keys, role).public
        assert load_pair(keys, role).secret.decode() not in repr(load_pair(keys, role))
        publics.add(load_public(keys, role))
    assert len(publics) == len(ROLES) == 5
    assert not list(tmp_path.glob(".keys-*"))
    with pytest.raises(KeysError, match="never replaced") as caught:
        create_keys(keys)
    assert str(keys) in caught.value.where and caught.value.remedy


def test_bad_keys_are_named(tmp_path: Path):
    keys = tmp_path / "keys"
    create_keys(keys)
    secret = keys / "secret" / "trainer.key_secret"
    secret.chmod(0o640)
    with pytest.raises(KeysError, match=r"readable by others[\s\S]*trainer\.key_secret[\s\S]*chmod 600"):
        load_pair(keys, "trainer")
    secret.chmod(0o600)
    secret.write_text("curve\n")
    with pytest.raises(KeysError, match="no public-key"):
        load_pair(keys, "trainer")
    secret.unlink()
    with pytest.raises(KeysError, match="missing"):
        load_pair(keys, "trainer")


def impersonation(run: Run, tmp_path: Path, role: Role, stolen: Role) -> Path:
    """A folder of keys in which the secret of `role` is really the one of `stolen`."""
    keys = tmp_path / f"{stolen}-as-{role}"
    shutil.copytree(run.keys, keys)
    shutil.copy(run.keys / "secret" / f"{stolen}.key_secret", keys / "secret" / f"{role}.key_secret")
    return keys


async def test_a_key_of_another_run_cannot_talk(run: Run, tmp_path: Path):
    foreign = tmp_path / "foreign"
    create_keys(foreign)
    # It even knows the controller's public key.
    shutil.copy(run.keys / "public" / "controller.key", foreign / "public" / "controller.key")
    async with run.controller() as controller, working(run), run.client() as client:
        async with QueueClient(run.endpoint, foreign, "trainer") as intruder:
            with pytest.raises(QueueError, match=r"refused the key of the role trainer[\s\S]*keys of this run"):
                await intruder.call(opening("e1"), timeout_s=60)
        with pytest.raises(QueueError, match="refused the key of the role sandbox"):
            await WorkerLink(run.endpoint, foreign).connect(lambda: WorkerHello(worker="x", slots=9, suites=("micro",)))
        seen = await status(client)
        assert list(seen.workers) == ["w0"] and seen.sessions == 0 and seen.counters["refused_keys"] >= 2
        assert controller.status().counters == seen.counters
    assert {e.data["socket"] for e in read_events(run.path / "audit") if e.kind == "key_refused"} == {
        "drivers",
        "workers",
    }


async def test_a_wrong_key_of_the_controller_is_not_trusted(run: Run, tmp_path: Path):
    keys = tmp_path / "wrong-server"
    create_keys(tmp_path / "other")
    shutil.copytree(run.keys, keys)
    shutil.copy(tmp_path / "other" / "public" / "controller.key", keys / "public" / "controller.key")
    async with run.controller() as controller, QueueClient(run.endpoint, keys, "trainer") as client:
        with pytest.raises(QueueTimeout):
            await client.call(GetStatus(request_id="s"), timeout_s=1)
        assert controller.status().counters == {}


@pytest.mark.parametrize("stolen", ["sandbox", "judge", "controller"])
async def test_only_drivers_may_use_the_socket_of_the_drivers(run: Run, tmp_path: Path, stolen: Role):
    async with run.controller(), working(run), run.client() as client:
        keys = impersonation(run, tmp_path, "trainer", stolen)
        async with QueueClient(run.endpoint, keys, "trainer") as intruder:
            with pytest.raises(QueueError, match="refused the key"):
                await intruder.call(opening("e1"), timeout_s=60)
        assert (await status(client)).sessions == 0


@pytest.mark.parametrize("stolen", ["trainer", "viewer", "judge"])
async def test_only_workers_may_use_the_socket_of_the_workers(run: Run, tmp_path: Path, stolen: Role):
    async with run.controller(), run.client() as client:
        link = WorkerLink(run.endpoint, impersonation(run, tmp_path, "sandbox", stolen))
        with pytest.raises(QueueError, match="refused the key"):
            await link.connect(lambda: WorkerHello(worker="x", slots=9, suites=("micro",)))
        assert (await status(client)).workers == {}


async def test_a_viewer_may_only_look(run: Run):
    async with run.controller(), working(run) as worker, run.client() as client, run.client("viewer") as viewer:
        await client.call(opening("e1"), timeout_s=60)
        assert isinstance(await viewer.call(GetStatus(request_id="s"), timeout_s=60), StatusReply)
        for request in (
            opening("e2"),
            submit("e1"),
            Test(request_id="t", episode="e1", step=0),
            Result(request_id="r", episode="e1"),
            CloseSession(request_id="c", episode="e1"),
        ):
            refused = await viewer.call(request, timeout_s=60)
            assert isinstance(refused, Refused) and "viewer" in refused.reason
        assert (await status(viewer)).counters["forbidden"] == 5
        assert worker.received == ["open-e1"]
    assert [e.kind for e in read_events(run.path / "audit")].count("forbidden") == 5


async def test_no_plain_connection_is_answered(run: Run):
    async with run.controller(), run.client() as client:
        endpoint = read_endpoint(run.endpoint)
        assert isinstance(endpoint, Endpoint)
        context = zmq.asyncio.Context()
        plain = context.socket(zmq.DEALER)
        plain.linger = 0
        for address in (endpoint.drivers, endpoint.workers):
            plain.connect(address)
            await plain.send_multipart([bytes(8), encode(GetStatus(request_id="plain"))])
        assert not await plain.poll(500)
        context.destroy(linger=0)
        assert (await status(client)).counters.get("malformed", 0) == 0


async def test_garbage_does_not_stop_the_controller(run: Run):
    async with run.controller(), working(run), run.client() as client:
        endpoint = read_endpoint(run.endpoint)
        assert endpoint is not None
        context = zmq.asyncio.Context()
        driver = connect_dealer(context, endpoint.drivers, run.keys, "trainer")
        worker = connect_dealer(context, endpoint.workers, run.keys, "sandbox")
        real = encode(opening("e1"))
        rubbish = [b"", b"\xc1", b"\x81\xa4type\xa4open", real[:-3], real + b"x", b"\x91" * 5000, os.urandom(100_000)]
        rubbish += [encode(Heartbeat(worker="w", busy=0, idle=0)), b"\x81\xa4type\xa2\xff\xfe"]
        for body in rubbish:
            await driver.send_multipart([bytes(8), body])
        await driver.send(real)
        await driver.send_multipart([b"", real])
        await driver.send_multipart([bytes(8), real, b"extra"])
        await driver.send_multipart([b"x"] * 500)
        for body in (b"", b"\xc1", real, os.urandom(1000)):
            await worker.send_multipart([bytes(8), body])
            await worker.send(body)
        await worker.send_multipart([b"short", real])
        expected = len(rubbish) + 4 + 4 * 2 + 1
        assert (await until(client, lambda s: s.counters["malformed"] >= expected)).counters["malformed"] == expected
        # Not even ZeroMQ: raw bytes at both ports.
        for address in (endpoint.drivers, endpoint.workers):
            host, port = address.removeprefix("tcp://").split(":")
            with socket.create_connection((host, int(port))) as raw:
                raw.sendall(os.urandom(4096))
        # A message beyond the bound ends the connection of its sender, nothing else.
        await driver.send_multipart([bytes(8), bytes(17 << 20)])
        assert isinstance(await client.call(opening("e1"), timeout_s=60), SessionOpened)
        context.destroy(linger=0)
        await asyncio.sleep(0)
