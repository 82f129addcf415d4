"""Several processes as threads of which one runs at a time, in an order given by a seed.

A thread runs until it gives the baton away at a pause; who gets it is drawn. So a run is a
function of its seed, whatever the machine does.
"""

import random
import threading
from collections.abc import Callable

PATIENCE_S = 120.0


class Stop(BaseException):
    """Another thread has failed; this one is to end."""


class Scheduler:
    """Hands one baton around among threads."""

    def __init__(self, rng: random.Random, switch: float) -> None:
        """``switch`` is how likely a pause lets another thread run."""
        self._rng = rng
        self._switch = switch
        self._turns: dict[str, threading.Semaphore] = {}
        self._running: list[str] = []
        self._threads: list[threading.Thread] = []
        self._end = threading.Semaphore(0)
        self._failure: BaseException | None = None

    def add(self, name: str, work: Callable[[], None]) -> None:
        """One more thread; it starts with :meth:`run`."""
        self._turns[name] = threading.Semaphore(0)
        self._running.append(name)
        self._threads.append(threading.Thread(target=self._body, args=(name, work), daemon=True))

    def run(self) -> None:
        """Run all threads to their ends; raises what the first one that failed raised."""
        for thread in self._threads:
            thread.start()
        if self._running:
            self._pass_on()
            if not self._end.acquire(timeout=PATIENCE_S):
                raise TimeoutError("the simulated processes wait for one another")
        for thread in self._threads:
            thread.join(timeout=PATIENCE_S)
        if self._failure is not None:
            raise self._failure

    def pause(self, name: str) -> None:
        """Let another thread run, perhaps."""
        if self._failure is not None:
            raise Stop
        if len(self._running) > 1 and self._rng.random() < self._switch:
            after = self._rng.choice(self._running)
            if after != name:
                self._turns[after].release()
                self._turns[name].acquire()
                if self._failure is not None:
                    raise Stop

    def _pass_on(self) -> None:
        self._turns[self._rng.choice(self._running)].release()

    def _body(self, name: str, work: Callable[[], None]) -> None:
        self._turns[name].acquire()
        try:
            if self._failure is None:
                work()
        except Stop:
            pass
        except BaseException as problem:  # noqa: BLE001 - raised again by run()
            self._failure = problem
        self._running.remove(name)
        if self._running:
            self._pass_on()
        else:
            self._end.release()
