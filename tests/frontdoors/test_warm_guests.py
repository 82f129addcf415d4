"""A Spark that stays does not end under the prompts that use it."""

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from ctsql.warm import client, keeper as keeper_module
from ctsql.warm.keeper import Keeper


@pytest.fixture
def address(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    return tmp_path / "k.sock"


@pytest.fixture
def keeper(address: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Keeper]:
    """One whose JVM and workers are not there."""
    monkeypatch.setattr(Keeper, "_start_worker", lambda _: None)
    monkeypatch.setattr(Keeper, "_cancel_of_gone", lambda _: None)
    monkeypatch.setattr(keeper_module, "_LOOK_SECONDS", 0.01)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(address))
        listener.listen()
        made = Keeper(listener)
        made.gateway = SimpleNamespace(
            proc=SimpleNamespace(poll=lambda: None),
            gateway_parameters=SimpleNamespace(port=1, auth_token="secret"),
        )
        yield made


def _join(address: Path, process: int) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(address))
    connection.sendall(client.JOIN + str(process).rjust(client.PROCESS_DIGITS).encode())
    return connection


def _answered(connection: socket.socket) -> str:
    return connection.recv(client._JOIN_CHARACTERS).decode().strip()


def test_cool_is_refused_while_a_prompt_uses_it(
    keeper: Keeper, address: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It names the processes; once they are gone it ends."""
    running = threading.Thread(target=keeper.run, args=(60.0,))
    running.start()
    with _join(address, 41) as one, _join(address, 42) as other:
        assert (_answered(one), _answered(other)) == ("1 secret", "1 secret")
        assert client._stop(address) == 1
        told = capsys.readouterr().err
        assert "is used by a prompt (process 41, 42)\n" in told
        assert "ctsql cool" in told
    while keeper.guests:
        time.sleep(0.01)
    stopping = threading.Thread(target=client._stop, args=(address,))
    stopping.start()
    running.join(10)
    assert not running.is_alive()
    assert keeper.stopper is not None
    keeper.stopper.close()
    stopping.join(10)
    assert capsys.readouterr().err == "the Spark that was left running has ended\n"


def test_after_a_replacement_it_stays_for_its_prompts_alone(
    keeper: Keeper, address: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands and further prompts are turned away, and it ends when the last one has."""
    running = threading.Thread(target=keeper.run, args=(60.0,))
    running.start()
    with _join(address, 41) as one:
        assert _answered(one) == "1 secret"
        monkeypatch.setattr(keeper_module, "state_of_code", lambda: (0, 0))
        while keeper._is_current:
            time.sleep(0.01)
        with _join(address, 42) as late:
            assert _answered(late) == ""
        with socket.socket(socket.AF_UNIX) as command:
            command.connect(str(address))
            command.sendall(client.RUN)
            assert command.recv(1) == b""
        assert running.is_alive()
    running.join(10)
    assert not running.is_alive()
