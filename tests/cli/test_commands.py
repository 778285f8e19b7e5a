import json
import subprocess
import sys
from pathlib import Path

import pytest
from bench_lines import FIT_LINE, LINE

from dahgnn import __version__
from dahgnn.bench.measure import BenchConfig
from dahgnn.cli import commands as cli
from dahgnn.cli.parser import make_parser
from dahgnn.progress import tell_ensemble_epochs
from dahgnn.training.run import Epoch


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
    assert "bench" in done.stdout
    assert "version" in done.stdout


def test_every_command_of_the_parser_runs_something():
    actions = make_parser()._subparsers._group_actions
    assert set(actions[0].choices) == set(cli.COMMANDS)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["features", "cifar"], "must be one of 'cifar10', 'svhn'. Got 'cifar'. Did you mean 'cifar10'?"),
        (["bench", "--methods", "our"], "Got 'our'. Did you mean 'ours'?"),
    ],
)
def test_an_unknown_name_is_refused_with_a_suggestion(words, message, capsys):
    assert cli.main(words) == 2
    assert message in capsys.readouterr().err


def test_an_unknown_command_is_refused():
    done = run("dem")
    assert done.returncode == 2
    assert "invalid choice: 'dem'" in done.stderr


def test_the_demo_gets_its_options_and_prints_the_report(tmp_path, monkeypatch, capsys):
    def run_demo(folder, observer, *, runs):
        with observer.phase("Train") as progress:
            tell_ensemble_epochs(progress, 100, 1)(0, EPOCH)
        return f"report of {runs} runs in {folder.name}"

    monkeypatch.setattr("dahgnn.report.demo.run_demo", run_demo)
    assert cli.main(["demo", "--out", str(tmp_path / "here"), "--runs", "2"]) == 0
    shown = capsys.readouterr()
    assert "report of 2 runs in here" in shown.out
    assert "Train" in shown.err
    assert "epoch   7 of at most 100  loss 0.123" in shown.err


def test_the_bench_gets_its_options_and_writes_what_it_is_asked_for(tmp_path, monkeypatch, capsys):
    configs = []

    def compare(config):
        configs.append(config)
        yield from [LINE, LINE | {"nodes": 2000}]

    monkeypatch.setattr("dahgnn.bench.measure.compare", compare)
    out, plot = tmp_path / "a.jsonl", tmp_path / "a.png"
    words = f"bench --nodes 1000 2000 --mnist images --repeats 3 --methods ours gat --out {out} --plot {plot}"
    assert cli.main(words.split()) == 0
    images = Path("images")
    assert configs == [BenchConfig(nodes=(1000, 2000), mnist=images, repeats=3, methods=("ours", "gat"))]
    shown = capsys.readouterr().out
    assert "| 1,000 | floor | 2.00 | – | – | 1.00 |\n| 2,000 |" in shown
    assert "30 GB/s" in shown
    assert [json.loads(line)["nodes"] for line in out.read_text().splitlines()] == [1000, 2000]
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_the_bench_prints_fits_as_a_second_table(monkeypatch, capsys):
    configs = []

    def compare_fits(config):
        configs.append(config)
        yield from [FIT_LINE, FIT_LINE | {"nodes": 2000}]

    monkeypatch.setattr("dahgnn.bench.measure.compare", lambda _: iter([LINE]))
    monkeypatch.setattr("dahgnn.bench.measure_fits.compare_fits", compare_fits)
    words = ["bench", "--nodes", "1000", "2000", "--features", "64", "--fits", "5", "--labels", "20"]
    assert cli.main(words) == 0
    assert configs == [BenchConfig(nodes=(1000, 2000), features=64, fits=5, labels=20)]
    epochs, fits = capsys.readouterr().out.split("| n | method | s a fit |")
    assert "| 1,000 | floor | 2.00 | – | – | 1.00 |\n\n2 CPU threads;" in epochs
    assert "| 1,000 | DAHGNNClassifier, ours | 6.00 |" in fits
    assert "| 2,000 | DAHGNNClassifier, ours | 6.00 |" in fits
    assert "Medians of 3 fits" in fits


@pytest.mark.parametrize(("words", "fits"), [("bench", 0), ("bench --fits", 3), ("bench --fits 1", 1)])
def test_fits_are_timed_when_asked_for(words, fits):
    assert make_parser().parse_args(words.split()).fits == fits


def test_the_bench_keeps_what_it_has_when_interrupted(tmp_path, monkeypatch):
    def compare(_):
        yield LINE
        raise KeyboardInterrupt

    monkeypatch.setattr("dahgnn.bench.measure.compare", compare)
    assert cli.main(["bench", "--out", str(tmp_path / "a.jsonl")]) == 130
    assert json.loads((tmp_path / "a.jsonl").read_text()) == LINE


def test_a_picture_without_matplotlib_fails_before_the_measurements(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("dahgnn.bench.measure.compare", lambda _: pytest.fail("measured"))
    assert cli.main(["bench", "--plot", "a.png"]) == 2
    expected = "dahgnn: matplotlib is not installed. It comes with dahgnn's extra 'bench'."
    assert capsys.readouterr().err.strip() == expected


def test_the_script_is_the_command():
    script = Path(__file__).parents[2] / "benchmarks" / "epoch.py"
    done = subprocess.run(
        [sys.executable, str(script), "--device", "cuda:99"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr.startswith("dahgnn: The 'device' parameter of BenchConfig must be")


EPOCH = Epoch(
    epoch=7, train_loss=0.1234, validation_loss=0.4561, train_accuracy=0.99, validation_accuracy=0.912,
    best_epoch=5, seconds=1.0,
)  # fmt: skip


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (ValueError("The 'k' parameter must be …"), 2, "dahgnn: The 'k' parameter must be …"),
        (
            OSError(28, "No space left on device"),
            2,
            "dahgnn: The disk is full. What was finished before is kept: make room, and start again.",
        ),
        (OSError(17, "File exists", "my.toml"), 2, "dahgnn: my.toml: File exists."),
        (KeyboardInterrupt(), 130, "dahgnn: interrupted."),
        (
            ModuleNotFoundError(name="mlxtend"),
            2,
            "mlxtend is not installed. It comes with dahgnn's extra 'demo'.",
        ),
        (ImportError("FAISS is broken.", name="faiss"), 2, "dahgnn: FAISS is broken."),
    ],
)
def test_errors_are_one_line_and_a_status(monkeypatch, capsys, error, status, words):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("dahgnn.report.demo.run_demo", fail)
    assert cli.main(["demo"]) == status
    assert capsys.readouterr().err.strip().endswith(words)


def test_no_error_steers_the_terminal(monkeypatch, capsys):
    def fail(_):
        raise ValueError("The cell \x1b[2J\u202e is no number.\nGot 2.")

    monkeypatch.setitem(cli.COMMANDS, "version", fail)
    assert cli.main(["version"]) == 2
    assert capsys.readouterr().err == "dahgnn: The cell \ufffd[2J\ufffd is no number.\nGot 2.\n"


def test_an_error_of_our_own_keeps_its_traceback(monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("a bug")

    monkeypatch.setattr("dahgnn.report.demo.run_demo", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        cli.main(["demo"])


def test_a_table_comes_by_standard_input(tmp_path):
    rows = [f"{row},{row % 2 * 5 + row / 10},{'uv'[row % 2] if row < 12 else ''}" for row in range(24)]
    text = "name;x;kind\n" + "\n".join(rows).replace(",", ";").replace(".", ",") + "\n"
    command = [sys.executable, "-m", "dahgnn"]
    fit = [*command, "fit", "-", "--format", "csv", "--label", "kind", "--id", "name", "--networks", "1"]
    done = subprocess.run(fit, input=text, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Written to runs/stdin.csv: " in done.stdout
    predict = [*command, "predict", "runs/stdin.csv", "-", "--format", "csv"]
    done = subprocess.run(
        predict, input="name;x\na;0,1\nb;5,5\n", capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "2 rows. Written to runs/stdin.csv/stdin-predictions.csv" in done.stdout
    done = subprocess.run(fit[:5] + fit[7:], input=text, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("dahgnn: The format of standard input must be named.")


def test_a_reader_that_leaves_early_is_no_error():
    command = f"{sys.executable} -m dahgnn version | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["/bin/bash", "-c", command], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
