import json
import subprocess
import sys
from pathlib import Path

import optuna
import pytest
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from harness.study.lease import LEASE_SECONDS, UNSIGNED_SECONDS, beat
from harness.study.plan import Cell
from harness.study.process import Owner, is_alive, this_process
from harness.study.queue import KILLED_LIMIT, RAISED_LIMIT, Queue
from harness.study.results import Results
from harness.study.runs import Runs
from harness.study.schedule import Schedule
from tests.study import toy


@pytest.fixture
def results(tmp_path: Path) -> Results:
    made = Results(root=tmp_path)
    made.prepare()
    return made


def cells(results: Results, seeds: int = 3) -> list[Cell]:
    return Schedule(toy.asked(seeds=seeds), Runs(results)).wanted()


def dead() -> Owner:
    """A process that has been, and is no more."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return Owner(machine=this_process()["machine"], pid=ended.pid, started="1")


def test_two_workers_never_hold_one_cell(results: Results) -> None:
    planner, one, two = Queue(results), Queue(results), Queue(results)
    planner.enqueue(cells(results))
    owner, claimed = this_process(), []
    while claims := [claim for queue in (one, two) if (claim := queue.claim(owner))]:
        claimed += claims
    assert [claim.number for claim in claimed] == list(range(6))
    assert {claim.cell.digest for claim in claimed} == {cell.digest for cell in cells(results)}


def test_who_loses_the_race_runs_nothing(results: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    planner, slow = Queue(results), Queue(results)
    planner.enqueue(cells(results)[:1])
    seen = slow.trials(TrialState.WAITING)
    assert planner.claim(this_process())
    monkeypatch.setattr(slow, "trials", lambda *states: seen)  # what it saw just before
    assert slow.claim(this_process()) is None
    assert len(planner.trials(TrialState.RUNNING)) == 1


def test_a_dead_workers_cell_is_free_again_unless_it_was_recorded(results: Results) -> None:
    queue = Queue(results)
    queue.enqueue(cells(results)[:2])
    lost, recorded = queue.claim(dead()), queue.claim(dead())
    assert lost
    assert recorded
    queue.reap(lambda digest: digest == recorded.cell.digest, now=0.0)
    states = {t.user_attrs["cell"]: t.state for t in queue.trials()}
    assert states[lost.cell.digest] == TrialState.FAIL
    assert states[recorded.cell.digest] == TrialState.COMPLETE


def looks(queue: Queue, start: float, end: float) -> list[int]:
    """Numbers given up by a reader that looks every five seconds of its clock, up to `end`."""
    for now in range(int(start), int(end) + 1, 5):
        queue.reap(lambda digest: False, float(now))
    return [trial.number for trial in queue.trials(TrialState.FAIL)]


ELSEWHERE = Owner(machine="elsewhere", pid=1, started="1")


def test_a_silent_workers_cell_is_given_back_when_its_lease_is_over(results: Results) -> None:
    queue = Queue(results)
    queue.enqueue(cells(results)[:2])
    queue.claim(this_process())
    queue.claim(ELSEWHERE)
    assert looks(queue, 0.0, LEASE_SECONDS - 5) == []
    assert looks(queue, LEASE_SECONDS, LEASE_SECONDS) == [1]  # that of this process stays
    assert looks(queue, LEASE_SECONDS, 10 * LEASE_SECONDS) == [1]


def test_a_lease_that_is_renewed_lasts(results: Results) -> None:
    queue, worker = Queue(results), Queue(results)
    queue.enqueue(cells(results)[:1])
    claim = worker.claim(ELSEWHERE)
    assert claim
    for count in range(1, 6):
        assert looks(queue, 20.0 * count, 20.0 * count + 15) == []
        worker.renew(claim.number, beat(count))
    queue.fail(claim.number, "killed", "")
    with pytest.raises(UpdateFinishedTrialError):
        worker.renew(claim.number, beat(9))


def test_a_reader_that_did_not_look_gives_nothing_up(results: Results) -> None:
    queue = Queue(results)
    queue.enqueue(cells(results)[:1])
    queue.claim(ELSEWHERE)
    assert looks(queue, 0.0, 5.0) == []
    assert looks(queue, 1000.0, 1000.0 + LEASE_SECONDS - 5) == []
    assert looks(queue, 1000.0 + LEASE_SECONDS, 1000.0 + LEASE_SECONDS) == [0]


def test_a_record_that_was_delivered_outlives_its_worker(results: Results) -> None:
    queue = Queue(results)
    queue.enqueue(cells(results)[:1])
    claim = queue.claim(dead())
    assert claim
    queue.deliver(claim.number, "{}")
    queue.reap(lambda digest: False, 0.0)
    assert queue.trials()[0].state == TrialState.COMPLETE


def test_work_is_left_while_a_cell_waits_or_runs_somewhere(results: Results) -> None:
    queue = Queue(results)
    assert not queue.has_work(0.0)
    queue.enqueue(cells(results)[:2])
    assert queue.has_work(0.0)
    mine, other = queue.claim(this_process()), queue.claim(dead())
    assert mine
    assert other
    assert queue.has_work(0.0)
    queue.finish(mine.number, 1.0)
    assert not queue.has_work(0.0)


def test_a_claim_that_stays_without_an_owner_is_ended(results: Results) -> None:
    queue = Queue(results)
    queue.enqueue(cells(results)[:1])
    queue._study.ask()  # killed right after it had taken the cell
    queue.reap(lambda digest: False, now=100.0)
    assert queue.trials()[0].state == TrialState.RUNNING
    queue.reap(lambda digest: False, now=100.0 + UNSIGNED_SECONDS)
    assert queue.trials()[0].state == TrialState.FAIL


def test_a_worker_that_was_paused_wakes_up_late_without_harm(results: Results) -> None:
    queue, paused = Queue(results), Queue(results)
    queue.enqueue(cells(results)[:1])
    claim = paused.claim(dead())
    assert claim
    queue.reap(lambda digest: False, now=0.0)
    queue.enqueue([claim.cell])
    again = queue.claim(this_process())
    assert again
    queue.finish(again.number, 1.0)
    paused.finish(claim.number, 1.0)
    paused.fail(claim.number, "raised", "too late")
    assert [t.state for t in queue.trials()] == [TrialState.FAIL, TrialState.COMPLETE]


@pytest.mark.parametrize(("reason", "limit"), [("raised", RAISED_LIMIT), ("killed", KILLED_LIMIT)])
def test_attempts_are_counted_from_the_start_of_a_run(
    results: Results, reason: str, limit: int
) -> None:
    queue, cell = Queue(results), cells(results)[0]

    def attempt(times: int, why: str) -> None:
        for _ in range(times):
            queue.enqueue([cell])
            claim = queue.claim(this_process())
            assert claim
            queue.fail(claim.number, why, "words")  # type: ignore[arg-type]

    queue.begin()
    attempt(limit - 1, reason)
    attempt(limit, "released")
    assert queue.failed_for_good() == {}
    attempt(1, reason)
    assert queue.failed_for_good()[cell.digest].error == "words"
    queue.begin()
    assert queue.failed_for_good() == {}


def test_withdrawn_cells_leave_the_others_in_their_order(results: Results) -> None:
    queue, planned = Queue(results), cells(results)
    queue.enqueue(planned)
    queue.withdraw({planned[1].digest, planned[4].digest})
    claimed = [queue.claim(this_process()) for _ in range(3)]
    assert [c and c.cell for c in claimed] == [planned[1], planned[4], None]


def test_a_half_written_line_is_cut_off_before_the_next(results: Results) -> None:
    queue = Queue(results)
    queue.enqueue(cells(results)[:1])
    with results.journal.open("a") as file:
        file.write('{"op_code": 8, "trial')
    assert queue.claim(this_process())
    assert all(json.loads(line) for line in results.journal.read_text().splitlines())
    assert len(Queue(results).trials()) == 1


def test_locks_of_the_dead_hold_nobody_up(results: Results) -> None:
    results.journal.with_name("queue.journal.lock").touch()
    (results.root / ".locks" / "journal.lock").touch()
    queue = Queue(results)
    queue.enqueue(cells(results))
    assert queue.claim(this_process())


def test_a_study_made_by_another_plan_is_refused(results: Results) -> None:
    storage = JournalStorage(JournalFileBackend(str(results.journal)))
    study = optuna.create_study(storage=storage, study_name="cells")
    study.tell(study.ask(), 1.0)
    with pytest.raises(ValueError, match=r"queue\.journal: its study 'cells' was made by another"):
        Queue(results)


def test_what_is_no_journal_is_refused(results: Results) -> None:
    results.journal.write_text("not a journal\nat all\n")
    with pytest.raises(ValueError, match=r"queue\.journal: not an Optuna journal"):
        Queue(results)


def test_a_process_is_told_from_a_later_one_with_its_number() -> None:
    me = this_process()
    assert is_alive(me)
    assert is_alive(Owner(**{**me, "started": "0"})) is False
    assert is_alive(dead()) is False
    assert is_alive(Owner(machine="elsewhere", pid=me["pid"], started=me["started"])) is None
