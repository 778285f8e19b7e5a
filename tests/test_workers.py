"""Workers: what each kind of them lacks is said, and a process ends with the one that it works for."""

import os
import signal
import subprocess
import sys

import pytest

from dahgnn.workers import count_workers, import_for_clusters, lost


def test_a_part_of_a_package_that_lacks_another_is_said(tmp_path, monkeypatch):
    (tmp_path / "half_package.py").write_text("raise ImportError('It requires the other package. ')")
    monkeypatch.syspath_prepend(tmp_path)
    words = "^It requires the other package. It comes with dahgnn's extra 'cluster'.$"
    with pytest.raises(ModuleNotFoundError, match=words):
        import_for_clusters("half_package")


def test_workers_that_die_are_counted():
    assert "Got 4 that were ended from outside" in str(lost(4))


def test_no_more_workers_than_work():
    assert count_workers(8, 3) == 3
    assert count_workers(None, 1) == 1
    assert count_workers(None, 10**6) >= 1


def test_a_process_ends_with_the_one_that_it_works_for():
    works = "import os, time; from dahgnn.workers import end_with; end_with(os.getppid()); "
    works += "print('ready', flush=True); time.sleep(100)"
    waits = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {works!r}])"
    process = subprocess.Popen([sys.executable, "-c", waits], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)  # until the other one has closed what it prints to


def test_a_process_whose_parent_is_gone_does_not_begin():
    code = "import sys; from dahgnn.workers import _belong_to; _belong_to(int(sys.argv[1])); print(1)"
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    for parent, status in ((gone.pid, 1), (os.getpid(), 0)):
        assert subprocess.run([sys.executable, "-c", code, str(parent)], check=False).returncode == status


@pytest.mark.parametrize(("parent", "status"), [(1, 0), (os.getpid(), 1)])
def test_only_the_child_of_another_process_is_an_orphan_below_the_first(parent, status):
    code = "import os; os.getppid = lambda: 1; from dahgnn.workers import _belong_to; "
    code += f"_belong_to({parent})"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == status
