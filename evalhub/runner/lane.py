"""`evalhub lane run`: one attempt of a lane, from the open door to the seal."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from evalhub.protocol.messages import Heartbeat, OpenedAttempt
from evalhub.protocol.paths import ItemKind, ItemPath, format_path
from evalhub.protocol.plan import Plan, PlannedLane
from evalhub.runner import clock, preflight
from evalhub.runner.agent_environment import (
    SimulatorAddress,
    held_secrets,
    inherited,
    lane_variables,
)
from evalhub.runner.client import OpenedAtStore, Store
from evalhub.runner.connection import patient
from evalhub.runner.delivery import Delivery, DeliveryReport
from evalhub.runner.documents import Loaded, write_whole
from evalhub.runner.errors import GuardRefusedError, RunnerError
from evalhub.runner.execution import Assignment, Execution
from evalhub.runner.fingerprints import environment_record
from evalhub.runner.heart import Heart
from evalhub.runner.holding import held
from evalhub.runner.lane_log import LaneLog
from evalhub.runner.members import Member
from evalhub.runner.room import Room
from evalhub.runner.session import AttemptSession
from evalhub.runner.simulator.child import RunningSimulator, SimulatorError, start_simulator
from evalhub.runner.spool import LaneState, Spool, SpoolError
from evalhub.runner.stopping import Stop

_TICK_SECONDS = 0.2
# The least that a finished lane waits for a store that is away; else the rest of its own time.
_LEAST_PATIENCE_SECONDS = 60.0
_BUDGET = "budget"


@dataclass(frozen=True, kw_only=True)
class LaneRequest:
    """What `lane run` was asked for."""

    plan: Loaded[Plan]
    plan_bytes: bytes
    lane: PlannedLane
    command: Sequence[str]
    jobs: int
    spool: Path
    environment: Mapping[str, str]
    pass_env: Sequence[str] = ()
    simulator: str | None = None
    simulator_seed: int = 1
    progress_file: Path | None = None
    opening_seconds: float = 60.0
    """How long to try to open the attempt while the store is away."""


def run_lane(
    store: Store, request: LaneRequest, *, report: Callable[[str], None]
) -> DeliveryReport:
    """Run a lane: open the attempt, check the guards, run every run key, send, seal.

    Raises:
        StoreUnreachableError: if no attempt could be opened; nothing was used yet.
        GuardRefusedError: if a guard failed; its record is at the store, nothing was run.
        RunnerError: if the store refuses the attempt, or the spool cannot be written.
    """
    # Should the answer to one be lost, the attempt after it supersedes it, and it has delivered nothing.
    opened = patient(
        lambda: store.open_attempt(request.plan.digest, request.lane.name),
        seconds=request.opening_seconds,
        report=report,
    )
    with ExitStack() as stack:
        # Before there is a spool in it: whoever follows never sees one that nobody holds.
        stack.enter_context(held(request.spool / opened.attempt.attempt))
        attempt = _Attempt(store, request, opened, report=report)
        stack.enter_context(attempt.stop.on_signals())
        stack.callback(attempt.close)
        simulator = attempt.start_simulator(stack)
        attempt.check_guards(simulator)
        attempt.execute(simulator)
        attempt.flush(simulator)
        return attempt.finish(seconds=attempt.patience_seconds)


class _Attempt:
    """The parts of one attempt and the order in which they work."""

    def __init__(
        self,
        store: Store,
        request: LaneRequest,
        opened: OpenedAtStore,
        *,
        report: Callable[[str], None],
    ) -> None:
        self._request = request
        self._opened = opened.attempt
        self._store_date = opened.store_date
        self._report = report
        self._begun = time.monotonic()
        self._deadline = self._begun + request.lane.timeout_minutes * 60
        self._problem: str | None = None
        self._simulator_started_at: datetime | None = None
        self._execution: Execution | None = None
        self._phase = "preflight"
        self._shown = b""
        self.stop = Stop()
        self._unkept: RunnerError | None = None
        self.spool = _new_spool(store, request, self._opened)
        self._log = LaneLog(self.spool, report=report)
        self._log.note(f"lane {request.lane.name}, attempt {self._opened.attempt}")
        self._session = AttemptSession.begun(store, self._opened)
        self._delivery = Delivery(self.spool, self._session, stop=self.stop, report=report)
        self._heart = Heart(
            self._session,
            seconds=self._opened.heartbeat_seconds,
            progress=self._heartbeat,
            stop=self._told_to_stop,
        )
        self._room = Room(
            self.spool.folder,
            deadline=self._deadline,
            report=report,
            is_over=self._is_to_end,
        )
        self._heart.start()

    def close(self) -> None:
        self._heart.close(is_hurried=self.stop.is_by_signal())
        self._delivery.close()
        self._log.close()

    # Before the runs

    def start_simulator(self, stack: ExitStack) -> RunningSimulator | None:
        """Start the lane's own world, if it was asked for; a failure is for the guard to tell."""
        if self._request.simulator is None:
            return None
        try:
            running = stack.enter_context(start_simulator(self._request.simulator_seed))
        except SimulatorError as error:
            self._problem = str(error)
            return None
        self._simulator_started_at = clock.now()
        self.spool.redaction.hold(running.key, kind="simulator")
        draft = json.dumps(self._environment(running)).encode()
        self._room.keep(lambda: self.spool.remember_environment(draft))
        return running

    def check_guards(self, simulator: RunningSimulator | None) -> None:
        """Send the preflight record; refuse to go on where a guard failed."""
        request, lane = self._request, self._request.lane
        environment = self._agent_environment(simulator)
        view = preflight.agents_view(environment)
        secrets = held_secrets(request.environment, lane_token=self._opened.lane_token)
        checks: list[preflight.Check] = [
            lambda: preflight.clock_check(self._store_date, at=clock.now()),
            lambda: preflight.agent_command_check(request.command, environment=environment),
            lambda: preflight.secrets_check(view, secrets=secrets),
            lambda: preflight.memory_check(lane, view),
        ]
        if request.simulator is not None or lane.environment.simulator is not None:
            state = simulator.started if simulator is not None else None
            checks.append(lambda: preflight.simulator_check(lane, state, problem=self._problem))
        found = preflight.preflight(checks, clock=clock.now)
        self._room.keep(lambda: self._cut_record(ItemKind.PREFLIGHT, found.record))
        if found.failed:
            self._refuse(found.failed, simulator)

    def _refuse(
        self, failed: Sequence[preflight.Checked], simulator: RunningSimulator | None
    ) -> None:
        self.flush(simulator)
        self.finish(seconds=_LEAST_PATIENCE_SECONDS)
        lines = [f"  {g.name} expected {g.expected}; saw {g.observed}. {g.fix}" for g in failed]
        raise GuardRefusedError("A guard refused to start the lane:\n" + "\n".join(lines))

    def _agent_environment(self, simulator: RunningSimulator | None) -> dict[str, str]:
        memory = None
        if self._request.lane.memory:
            memory = (self.spool.folder / "memory").absolute()
            memory.mkdir(mode=0o700, exist_ok=True)
        address = SimulatorAddress(simulator.url, simulator.key) if simulator is not None else None
        return {
            **inherited(self._request.environment, passed=self._request.pass_env),
            **lane_variables(self._request.lane, simulator=address, memory_dir=memory),
        }

    # The runs

    def execute(self, simulator: RunningSimulator | None) -> None:
        """Run every run key of the lane, and send while that goes on."""
        if self.stop.reason not in {None, _BUDGET}:
            return
        lane = self._request.lane
        self._phase = "running"
        assignment = Assignment(
            spool=self.spool,
            log=self._log,
            command=self._request.command,
            environment=self._agent_environment(simulator),
            deadline=self._deadline,
            flush_seconds=self._flush_seconds,
            stamp=self._session.stamp,
            room=self._room,
            on_cut=self._delivery.wake,
            # What an agent wrote is quoted where it is wrong.
            report=lambda said: self._report(self.spool.redaction.cleaned_sentence(said)),
        )
        execution = Execution(assignment, lane.run_keys, jobs=self._request.jobs)
        self._execution = execution
        execution.start()
        with self._flushing(execution):
            while not execution.is_over():
                execution.join(_TICK_SECONDS)
                self._obey(execution)
                self._show_progress()
        if execution.failure is not None:
            self._report(str(execution.failure))
            self.stop.say("the lane could not go on")

    @property
    def _flush_seconds(self) -> float:
        return max(self._opened.limits.flush_seconds, 1)

    @contextmanager
    def _flushing(self, execution: Execution) -> Iterator[None]:
        """Cut at intervals what is new, in a thread: a slow disk must not keep a signal waiting."""
        is_over = threading.Event()

        def work() -> None:
            while not is_over.wait(self._flush_seconds):
                self._flush_running(execution)

        thread = threading.Thread(target=work, name="flush", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    def _flush_running(self, execution: Execution) -> None:
        """Cut what the log and the runs that go on have got since the last time."""
        try:
            self._log.sync()
            self._room.try_once(lambda: self._flush_log(is_over=False))
            self._room.try_once(lambda: execution.flush(is_to_end=self._is_to_end))
        except RunnerError as error:
            execution.fail(error)
        except OSError as error:
            execution.fail(SpoolError(f"The spool cannot be used: {error}."))

    def _obey(self, execution: Execution) -> None:
        if self.stop.reason is None:
            return
        if self._is_to_end():
            execution.stop()
        else:
            execution.stop_spending()

    def _is_to_end(self) -> bool:
        """Say whether nothing more is to be done than to send what there is."""
        return self.stop.is_by_signal() or self.stop.reason not in {None, _BUDGET}

    def _told_to_stop(self, reason: str) -> None:
        if reason == "sealed" and self._phase in {"sending", "sealed"}:
            # By this lane itself; the answer came, is on its way, or was lost and is asked for again.
            return
        self._report(f"The store says stop: {reason}.")
        self.stop.say(reason)

    # After the runs

    def flush(self, simulator: RunningSimulator | None) -> None:
        """Cut what is left: the environment with the world's final state, and the log."""
        self._phase = "sending"
        environment = self._environment(simulator)
        try:
            self._room.keep(lambda: self._cut_record(ItemKind.ENVIRONMENT, environment))
            self._room.keep(lambda: self._flush_log(is_over=True))
            self._room.keep(self._cut_redactions)
        except RunnerError as error:
            # What is in segments is sent all the same.
            self._unkept = error

    def finish(self, *, seconds: float) -> DeliveryReport:
        """Send the rest, seal unless a signal came, and say how it went."""
        failure = self._execution.failure if self._execution is not None else None
        if failure is None and self._unkept is None:
            self._say_that_all_is_cut()
        report = self._delivery.finish(
            seconds=seconds, on_tick=self._show_progress, failure=failure or self._unkept
        )
        if self._execution is not None:
            report.outcomes = dict(self._execution.outcomes)
            report.fruitless = self._execution.fruitless
        self._phase = "sealed" if report.sealed else "ended"
        self._show_progress()
        return report

    def _say_that_all_is_cut(self) -> None:
        try:
            self._room.try_once(self.spool.note_over)
        except RunnerError as error:
            # Whoever follows a copy of the spool waits in vain for it, and says so.
            self._report(str(error))

    @property
    def patience_seconds(self) -> float:
        """How long to wait for a store that is away: the rest of the lane's time."""
        return max(_LEAST_PATIENCE_SECONDS, self._deadline - time.monotonic())

    def _environment(self, simulator: RunningSimulator | None) -> dict[str, Any]:
        state: Mapping[str, Any] | None = None
        if simulator is not None:
            try:
                state = simulator.state()
            except SimulatorError as error:
                self._report(str(error))
                state = simulator.started
        return environment_record(
            self._request.plan.model,
            self._request.lane,
            salt=self._opened.salt,
            simulator=state,
            simulator_started_at=self._simulator_started_at,
        )

    def _cut_record(self, kind: ItemKind, document: Mapping[str, Any]) -> None:
        member = Member(format_path(ItemPath(kind)), json.dumps(document).encode())
        self.spool.cut("record", [member], at=self._session.stamp())
        self._delivery.wake()

    def _flush_log(self, *, is_over: bool) -> None:
        if self.spool.cut("bulk", self._log.members(is_over=is_over), at=self._session.stamp()):
            self._delivery.wake()

    def _cut_redactions(self) -> None:
        if self.spool.cut("record", [self.spool.redactions()], at=self._session.stamp()):
            self._delivery.wake()

    # How far it is

    def _heartbeat(self) -> Heartbeat:
        done = self._execution.done if self._execution is not None else 0
        return Heartbeat(phase=self._phase, done=done, total=len(self._request.lane.runs))

    def _show_progress(self) -> None:
        if self._request.progress_file is None:
            return
        outcomes = dict(self._execution.outcomes) if self._execution is not None else {}
        progress = {
            "lane": self._request.lane.name,
            "attempt": self._opened.attempt,
            **self._heartbeat().model_dump(),
            "outcomes": outcomes,
            "segments": len(self.spool.segments()),
            "unsent": len(self.spool.unsent()),
        }
        data = json.dumps(progress).encode()
        if data != self._shown:
            self._shown = data
            path = self._request.progress_file
            self._room.try_once(lambda: write_whole(path, data, survives_power_cut=False))


def _new_spool(store: Store, request: LaneRequest, opened: OpenedAttempt) -> Spool:
    state = LaneState(
        plan=request.plan.digest,
        lane=request.lane.name,
        attempt=opened.attempt,
        store=store.url,
        opened_at=store.clock.now(),
        segment_bytes=opened.limits.segment_bytes,
    )
    folder = request.spool / opened.attempt
    return Spool.created(folder, state, plan=request.plan.model, plan_bytes=request.plan_bytes)
