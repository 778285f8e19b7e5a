"""The words of the command line.

Building the parser imports nothing that takes long, so that ``--help`` and a slip of the finger are answered
at once. Names that a registry knows are therefore checked by the command, which then lists them.
"""

from __future__ import annotations

import argparse
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from dahgnn._version import __version__
from dahgnn.cli.display import printable

if TYPE_CHECKING:
    # The type of what `add_subparsers` returns takes a parameter for type checkers alone.
    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints may quote any word, so that nothing in them steers the terminal."""

    def error(self, message: str) -> NoReturn:
        super().error(printable(message))


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands.

    The parsed options hold ``command``, the name of the command, and ``extra``, the extra of the package that
    has what the command needs.
    """
    parser: argparse.ArgumentParser = _Parser(
        prog="dahgnn", description="Labels for the rest of your feature vectors."
    )
    parser.add_argument("--version", action="version", version=f"dahgnn {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND", dest="command")
    for add in (_add_demo, _add_bench, _add_features, _add_reproduce, _add_report, _add_fit, _add_predict):
        add(commands)
    _add_explain(commands)
    _add_suggest(commands)
    _add_label(commands)
    version = commands.add_parser("version", help="print the versions of dahgnn and what it runs on")
    version.set_defaults(extra="demo")
    return parser


def _add_demo(commands: _Commands) -> None:
    demo = commands.add_parser("demo", help="train and compare on 5,000 real MNIST digits")
    demo.add_argument(
        "--out", type=Path, default=Path("runs/demo"), metavar="DIR", help="results (%(default)s)"
    )
    demo.add_argument(
        "--runs", type=int, default=3, metavar="N", help="repetitions, each on a new split (%(default)s)"
    )
    demo.set_defaults(extra="demo")


def _add_bench(commands: _Commands) -> None:
    bench = commands.add_parser(
        "bench", help="time epochs and fits of ours, of peers, and the least there can be"
    )
    bench.add_argument("--device", default="cpu", help="cpu or cuda (%(default)s)")
    bench.add_argument("--nodes", type=int, nargs="+", default=[10_000], metavar="N", help="sizes n (10000)")
    bench.add_argument("--mnist", type=Path, metavar="DIR", help="take the images there, not random data")
    bench.add_argument("--features", type=int, metavar="N", help="columns of random data (784)")
    bench.add_argument("--repeats", type=int, default=20, metavar="N", help="epochs (%(default)s)")
    bench.add_argument(
        "--methods", nargs="+", metavar="NAME", help="rows of the tables (all; a wrong name lists them)"
    )
    bench.add_argument(
        "--fits",
        type=int,
        nargs="?",
        const=3,
        default=0,
        metavar="N",
        help="time whole fits as well, N times each (%(const)s)",
    )
    bench.add_argument(
        "--labels", type=int, default=50, metavar="N", help="of each class for a fit (%(default)s)"
    )
    bench.add_argument("--out", type=Path, metavar="FILE.jsonl", help="write the results there, too")
    bench.add_argument("--plot", type=Path, metavar="FILE.png", help="draw cost against n")
    bench.set_defaults(extra="bench")


def _add_features(commands: _Commands) -> None:
    features = commands.add_parser("features", help="train the 13-layer CNN and cache its features")
    features.add_argument("dataset", metavar="NAME", help="whose images, such as cifar10")
    features.add_argument("--epochs", type=int, metavar="N", help="passes over the images")
    features.add_argument("--seed", type=int, default=0, metavar="N", help="of the training (%(default)s)")
    _add_data(features)
    features.set_defaults(extra="reproduce")


def _add_reproduce(commands: _Commands) -> None:
    again = commands.add_parser("reproduce", help="run an experiment of the paper, or your own spec")
    again.add_argument("spec", metavar="SPEC", help=f"{', '.join(_spec_names())} or a TOML file")
    again.add_argument("--dataset", nargs="+", metavar="NAME", help="only these datasets")
    again.add_argument("--method", nargs="+", metavar="NAME", help="only these methods")
    again.add_argument("--out", type=Path, metavar="DIR", help="results (runs/SPEC)")
    again.add_argument("--jobs", type=int, metavar="N", help="processes, or workers of a cluster (all cores)")
    again.add_argument(
        "--backend",
        choices=("processes", "ray", "dask"),
        default="processes",
        help="where these are: here, or on the cluster that RAY_ADDRESS or DASK_SCHEDULER_ADDRESS names "
        "(%(default)s)",
    )
    _add_data(again)
    again.set_defaults(extra="reproduce")


def _spec_names() -> list[str]:
    """Return what `builtin_specs` does, without all that a spec needs."""
    files = (resources.files("dahgnn.experiments") / "specs").iterdir()
    return sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml"))


def _add_report(commands: _Commands) -> None:
    report = commands.add_parser("report", help="write the tables and the page of a folder of runs anew")
    report.add_argument("folder", type=Path, metavar="DIR", help="holds runs.jsonl and spec.json")
    report.set_defaults(extra="reproduce")


def _add_fit(commands: _Commands) -> None:
    own = commands.add_parser("fit", help="label the rest of your own table")
    own.add_argument(
        "table",
        type=Path,
        metavar="FILE",
        help="a csv, parquet or npz file (a wrong ending lists all), a folder of Parquet files or of "
        "pictures, or -",
    )
    own.add_argument(
        "--label", metavar="COLUMN", help="its labels; empty means unlabelled (of pictures, their folders)"
    )
    own.add_argument("--id", metavar="COLUMN", help="names of the rows (their numbers)")
    own.add_argument(
        "--hyperedges",
        type=Path,
        metavar="FILE",
        help="your own: a table of row ids and hyperedge names, or HIF (nearest neighbours)",
    )
    _add_columns(own)
    _add_reading(own, "found")
    own.add_argument("--out", type=Path, metavar="DIR", help="results (runs/FILE)")
    own.add_argument("-k", type=int, default=10, metavar="N", help="neighbours of a row (%(default)s)")
    own.add_argument("--seed", type=int, default=0, metavar="N", help="of everything (%(default)s)")
    own.add_argument(
        "--networks",
        type=_count_or_auto,
        default="auto",
        metavar="N",
        help="how many are averaged (auto: 5 up to 20,000 rows, then 1)",
    )
    own.add_argument(
        "--validation",
        type=float,
        default=0.2,
        metavar="SHARE",
        help="of labelled rows, held out by each network; 0 is none (%(default)s)",
    )
    own.add_argument(
        "--scale",
        choices=("none", "auto", "columns", "whole", "words", "categories"),
        default="auto",
        help="of the columns (%(default)s)",
    )
    own.add_argument(
        "--map",
        choices=("auto", "tsne", "pca", "none"),
        default="auto",
        help="of the page (auto: t-SNE for 100 rows or more); none is a page without one",
    )
    _add_classes(own)
    own.add_argument("--parquet", action="store_true", help="write predictions.parquet, too")
    own.add_argument("--device", default="auto", help="cpu or cuda (what there is)")
    _add_resources(own)
    own.add_argument(
        "--dry-run",
        action="store_true",
        help="say what is understood, all that is wrong, and what a fit would need; fit nothing",
    )
    _add_json(own)
    own.set_defaults(extra="fit")


def _add_resources(parser: argparse.ArgumentParser) -> None:
    """Add what a fit of very many rows may use, and which way it goes."""
    parser.add_argument(
        "--search",
        choices=("auto", "exact", "ivf", "hnsw"),
        default="auto",
        help="for neighbours: exact, or one of FAISS's (by the size of the table)",
    )
    parser.add_argument(
        "--recall",
        type=float,
        default=0.95,
        metavar="SHARE",
        help="of the true neighbours, that an approximate search finds (%(default)s)",
    )
    parser.add_argument(
        "--batch",
        type=_batch,
        default="auto",
        metavar="N",
        help="labelled rows of an update; 0 is all rows at once (auto: 0 if memory allows)",
    )
    parser.add_argument(
        "--memory",
        type=float,
        metavar="GIB",
        help="that each process of a fit may use (its part of most of what is free)",
    )
    parser.add_argument(
        "--work",
        type=Path,
        metavar="DIR",
        help="for arrays that memory cannot hold (the system's, such as /tmp)",
    )
    _add_workers(parser, "that search for neighbours")


def _add_workers(parser: argparse.ArgumentParser, purpose: str) -> None:
    """Add among how many processes, or workers of a cluster, work is divided."""
    parser.add_argument(
        "--jobs",
        type=int,
        metavar="N",
        help=f"processes or workers {purpose} (one process, or all workers of a cluster)",
    )
    parser.add_argument(
        "--backend",
        choices=("processes", "ray", "dask"),
        default="processes",
        help="where these are (%(default)s)",
    )


def _batch(text: str) -> int | str:
    if text == "auto":
        return text
    if text.isdecimal():
        return int(text)
    raise argparse.ArgumentTypeError(f"must be a number from 0 on, or auto. Got '{text}'")


def _add_classes(parser: argparse.ArgumentParser) -> None:
    """Add what a user may say of classes: each option may be given several times."""
    parser.add_argument(
        "--class-weight",
        action="append",
        default=[],
        metavar="WEIGHT",
        help="'balanced', or NAME=NUMBER for a class that is to count more or less; may be repeated",
    )
    parser.add_argument(
        "--class-prior",
        action="append",
        default=[],
        metavar="NAME=SHARE",
        help="how common a class is among all rows, if you know it; for each but one (as among the labels)",
    )


def _add_columns(parser: argparse.ArgumentParser) -> None:
    """Add what a user may say of columns: each option takes one value, and may be given several times."""
    for option, metavar, meaning in (
        ("--drop", "COLUMN", "leave it out"),
        ("--keep", "COLUMN", "use it although it counts or names the rows"),
        ("--missing", "WORD", "it means missing, in labels and features"),
        ("--text", "COLUMN", "it is free text, whatever it looks like"),
        ("--picture", "COLUMN", "it has paths of pictures, relative to FILE"),
    ):
        parser.add_argument(
            option, action="append", default=[], metavar=metavar, help=f"{meaning}; may be repeated"
        )
    parser.add_argument(
        "--text-model",
        metavar="NAME",
        help="a sentence-transformers model on this machine, for free text (its words are counted)",
    )


def _add_reading(parser: argparse.ArgumentParser, default: str) -> None:
    """Add how a file is to be read, where its name and content do not say it."""
    for option, metavar, meaning in (
        ("--format", "NAME", "of the file, such as csv (by its name)"),
        ("--encoding", "NAME", f"of a text file, such as cp1252 ({default})"),
        ("--delimiter", "SIGN", f"between the cells of a text file; tab is one ({default})"),
        ("--decimal", "SIGN", f"of numbers in a text file, . or , ({default})"),
        ("--sheet", "NAME", f"of a workbook ({'the first' if default == 'found' else default})"),
    ):
        parser.add_argument(option, metavar=metavar, help=meaning)


def _count_or_auto(text: str) -> int | str:
    if text == "auto":
        return text
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"must be a number from 1 on, or auto. Got '{text}'")


def _add_predict(commands: _Commands) -> None:
    predict = commands.add_parser("predict", help="label the rows of another file, without a new fit")
    _add_fitted(predict)
    predict.add_argument(
        "table",
        type=Path,
        metavar="FILE",
        help="with the columns of the fitted one; or a folder of such files",
    )
    predict.add_argument("--id", metavar="COLUMN", help="names of the rows (as at the fit)")
    _add_reading(predict, "as at the fit")
    predict.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="results, .csv or .parquet, or - (DIR/FILE-predictions.csv); of a folder, a folder",
    )
    _add_workers(predict, "for the files of a folder")


def _add_explain(commands: _Commands) -> None:
    why = commands.add_parser("explain", help="say why a row got its label")
    _add_fitted(why)
    why.add_argument(
        "--row", action="append", required=True, metavar="ID", help="the id of a fitted row; may be repeated"
    )


def _add_suggest(commands: _Commands) -> None:
    more = commands.add_parser("suggest", help="choose the rows to label next")
    _add_fitted(more)
    more.add_argument("-n", type=int, default=20, metavar="N", help="how many (%(default)s)")


def _add_label(commands: _Commands) -> None:
    label = commands.add_parser("label", help="label rows in the browser, and watch the rest fall into place")
    label.add_argument(
        "table",
        type=Path,
        metavar="FILE",
        help="a table, a folder of pictures, or what 'dahgnn fit' wrote; it is never changed",
    )
    label.add_argument("--label", metavar="COLUMN", help="labels that are there already (none)")
    label.add_argument("--id", metavar="COLUMN", help="names of the rows (their numbers)")
    _add_columns(label)
    label.add_argument("--image", dest="picture", action="append", metavar="COLUMN", help=argparse.SUPPRESS)
    label.add_argument(
        "--image-shape",
        type=_shape,
        default=(),
        metavar="HxW",
        help="the columns are pixels, as 28x28 or 32x32x3",
    )
    label.add_argument(
        "--features", type=Path, metavar="FILE.npy", help="learn from these, (n, d); show FILE"
    )
    label.add_argument("--neighbors", type=Path, metavar="FILE.npy", help="nearest rows, (n, k), if known")
    _add_reading(label, "found")
    label.add_argument("--journal", type=Path, metavar="FILE", help="keeps all labels (FILE.labels.sqlite)")
    label.add_argument(
        "--out", type=Path, metavar="DIR", help="where a fit is exported to (runs/FILE-labelled)"
    )
    label.add_argument("-k", type=int, default=10, metavar="N", help="neighbours of a row (%(default)s)")
    label.add_argument("--seed", type=int, default=0, metavar="N", help="of everything (%(default)s)")
    label.add_argument(
        "--map", choices=("auto", "tsne", "pca"), default="auto", help="(auto: t-SNE for 100 to 100,000 rows)"
    )
    label.add_argument("--port", type=int, default=0, metavar="N", help="of the page (any that is free)")
    label.add_argument("--host", default="127.0.0.1", help="to listen at; others than this one need --i-know")
    label.add_argument("--i-know", action="store_true", help="let other machines in, without encryption")
    label.add_argument("--no-browser", action="store_true", help="print the address, and open nothing")
    label.set_defaults(extra="label")


def _shape(text: str) -> tuple[int, ...]:
    sides = text.lower().split("x")
    if len(sides) not in (2, 3) or not all(side.isdecimal() and 0 < int(side) < 10_000 for side in sides):
        raise argparse.ArgumentTypeError(f"must be a height and a width, as 28x28, or 32x32x3. Got '{text}'")
    return tuple(int(side) for side in sides)


def _add_fitted(parser: argparse.ArgumentParser) -> None:
    """Add the folder of a fit, which some commands begin with."""
    parser.add_argument("folder", type=Path, metavar="DIR", help="what 'dahgnn fit' wrote")
    _add_json(parser)
    parser.set_defaults(extra="fit")


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _add_data(parser: argparse.ArgumentParser) -> None:
    """Add where datasets are, and where to compute."""
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="datasets and features (DAHGNN_DATA, or the user's cache)"
    )
    parser.add_argument("--device", default="cpu", help="cpu or cuda (%(default)s)")
    parser.add_argument("--offline", action="store_true", help="download nothing")
