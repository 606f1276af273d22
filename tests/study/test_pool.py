from pathlib import Path

import pytest

from harness.study.pool import CRASH_LIMIT, KILL_LIMIT, FolderUnusable, LocalPool, WorkersFailed
from harness.study.results import Results
from harness.study.worker import UNUSABLE


def pool(root: Path) -> LocalPool:
    return LocalPool(results=Results(root=root), runner="nowhere:run")


@pytest.mark.parametrize(("code", "limit"), [(1, CRASH_LIMIT), (-9, KILL_LIMIT)])
def test_workers_that_keep_ending_are_given_up_with_their_last_words(
    tmp_path: Path, code: int, limit: int
) -> None:
    workers = pool(tmp_path)
    for _ in range(limit - 1):
        workers._count(code, "no module named nowhere")
    with pytest.raises(WorkersFailed, match=rf"code {code}\): no module named nowhere"):
        workers._count(code, "no module named nowhere")


def test_kills_in_between_finished_cells_are_no_reason_to_give_up(tmp_path: Path) -> None:
    workers = pool(tmp_path)
    for _ in range(2 * KILL_LIMIT):
        workers._count(-9, "")
        workers.progressed()


def test_a_folder_that_cannot_be_used_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(FolderUnusable, match="no space"):
        pool(tmp_path)._count(UNUSABLE, "no space")


def test_a_worker_that_cannot_start_is_a_failure_with_words(tmp_path: Path) -> None:
    results = Results(root=tmp_path)
    results.prepare()
    with pool(tmp_path) as workers:
        workers._start()
        process = workers._workers[0][0]
        assert process.wait() == 1
        workers._crashes = CRASH_LIMIT - 1
        with pytest.raises(WorkersFailed, match="No module named 'nowhere'"):
            workers.keep(1)
