import subprocess
import sys

import pytest

from dahgnn import __version__, cli
from dahgnn.config import TrainingConfig
from dahgnn.training import Epoch


def run(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "dahgnn", *arguments], capture_output=True, text=True)


def test_version_says_what_it_runs_on():
    done = run("version")
    assert done.returncode == 0
    assert done.stdout.startswith(f"dahgnn {__version__}, Python 3.")
    assert "torch 2." in done.stdout


def test_help_lists_the_commands():
    done = run("--help")
    assert done.returncode == 0
    assert "demo" in done.stdout
    assert "version" in done.stdout


def test_an_unknown_command_is_refused():
    done = run("dem")
    assert done.returncode == 2
    assert "invalid choice: 'dem'" in done.stderr


def test_the_demo_gets_its_options_and_prints_the_report(tmp_path, monkeypatch, capsys):
    def run_demo(folder, observer, *, runs):
        with observer.stage("Train", TrainingConfig()) as callback:
            callback(EPOCH)
        return f"report of {runs} runs in {folder.name}"

    monkeypatch.setattr(cli, "run_demo", run_demo)
    assert cli.main(["demo", "--out", str(tmp_path / "here"), "--runs", "2"]) == 0
    shown = capsys.readouterr()
    assert "report of 2 runs in here" in shown.out
    assert "Train" in shown.err
    assert "epoch   7  loss 0.123/0.456  91.2 %" in shown.err


EPOCH = Epoch(
    epoch=7, train_loss=0.1234, validation_loss=0.4561, train_accuracy=0.99, validation_accuracy=0.912,
    best_epoch=5, seconds=1.0,
)  # fmt: skip


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (ValueError("The 'k' parameter must be …"), 2, "dahgnn: The 'k' parameter must be …"),
        (OSError(28, "No space left on device"), 2, "dahgnn: [Errno 28] No space left on device"),
        (KeyboardInterrupt(), 130, "dahgnn: interrupted."),
        (
            ModuleNotFoundError(name="mlxtend"),
            2,
            "mlxtend is not installed. It comes with dahgnn's extra 'demo'.",
        ),
    ],
)
def test_errors_are_one_line_and_a_status(monkeypatch, capsys, error, status, words):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(cli, "run_demo", fail)
    assert cli.main(["demo"]) == status
    assert capsys.readouterr().err.strip().endswith(words)


def test_an_error_of_our_own_keeps_its_traceback(monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("a bug")

    monkeypatch.setattr(cli, "run_demo", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        cli.main(["demo"])


def test_a_reader_that_leaves_early_is_no_error():
    command = f"{sys.executable} -m dahgnn version | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["/bin/bash", "-c", command], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
