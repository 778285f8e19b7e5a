"""From a spec to its report: fetch the data, run what is missing, write tables and figures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from dahgnn.checks import bad_value, check_choice, check_count, check_device
from dahgnn.config import BACKENDS
from dahgnn.experiments.datasets import DatasetSpec, Task, draw_nodes, load_task
from dahgnn.experiments.fit_jobs import figure_results
from dahgnn.experiments.runner import run_experiment
from dahgnn.experiments.spec import Spec
from dahgnn.experiments.tuning import run_search
from dahgnn.files.atomic import replacing
from dahgnn.files.jsonl import lock_folder
from dahgnn.images.datasets import CLASSES, load_images, official_files
from dahgnn.images.downloads import fetch
from dahgnn.progress import Observer, tell_downloads, tell_fits
from dahgnn.report.embedding import Panel, draw_pair, interactive_embedding
from dahgnn.report.experiment_page import write_report
from dahgnn.report.projection import tsne

# Processes; a slip of the finger should not start more than a machine can hold.
_MOST_JOBS = 1000


@dataclass(frozen=True, kw_only=True)
class ReproduceOptions:
    """What of a spec is run, and how.

    Parameters
    ----------
    datasets, methods : sequence of str, optional
        Some of the spec's; all by default.
    device : str
        "cpu" or a CUDA device.
    jobs, backend : int, str, optional
        Workers, and where they are, see `run_experiment`.
    offline : bool
        Whether missing files are an error instead of being downloaded.
    """

    datasets: Sequence[str] | None = None
    methods: Sequence[str] | None = None
    device: str = "cpu"
    jobs: int | None = None
    backend: str = "processes"
    offline: bool = False


def reproduce(
    spec: Spec, folder: Path, data: Path, observer: Observer, options: ReproduceOptions | None = None
) -> list[Path]:
    """Run what is missing of a spec and write its report.

    Parameters
    ----------
    spec : Spec
        What to run.
    folder : Path
        Gets run lines and report, or the figure.
    data : Path
        The data folder, see `downloads.data_folder`.
    observer : Observer
        Sees the progress.
    options : ReproduceOptions, optional
        All of the spec on the CPU by default.

    Returns
    -------
    list of Path
        What was written.
    """
    options = ReproduceOptions() if options is None else options
    if options.jobs is not None:
        check_count("jobs", options.jobs, "reproduce")
        if options.jobs > _MOST_JOBS:
            raise bad_value("jobs", "reproduce", f"at most {_MOST_JOBS} processes", options.jobs)
    check_choice("backend", options.backend, BACKENDS, "reproduce")
    where = check_device(options.device, "reproduce")
    device = "cpu" if where.type == "cpu" else str(where)
    chosen = _choose(spec, options.datasets, options.methods)
    tasks = {}
    for dataset in chosen:
        # A figure shows the images, whatever the features are.
        if dataset.has_images and (dataset.features == "pixels" or spec.figure):
            with tell_downloads(observer) as received:
                files = official_files(dataset.name, dataset.part)
                fetch(dataset.name, data, progress=received, offline=options.offline, files=files)
        with observer.phase(f"Read {dataset.title} and find its neighbours"):
            tasks[dataset.name] = load_task(dataset, spec.k, data, device)
    if spec.search is not None:
        with observer.phase(spec.title) as progress:
            run_search(spec, folder, tasks, device=device, progress=tell_fits(progress))
        return [folder / "trials.jsonl"]
    if spec.figure:
        with lock_folder(folder):
            return _draw(spec, chosen[0], tasks[chosen[0].name], folder, data, observer, device)
    with observer.phase(spec.title) as progress:
        heard = tell_fits(progress)
        run_experiment(
            spec,
            folder,
            tasks,
            methods=options.methods,
            device=device,
            jobs=options.jobs,
            backend=options.backend,
            progress=heard,
        )
    with observer.phase("Write the report"):
        return write_report(folder)


def _choose(spec: Spec, datasets: Sequence[str] | None, methods: Sequence[str] | None) -> list[DatasetSpec]:
    """Return the datasets to run; an unknown name is an error before anything is read."""
    known = [dataset.name for dataset in spec.datasets]
    for name in datasets or []:
        check_choice("datasets", name, known, "reproduce")
    for name in methods or []:
        check_choice("methods", name, [method.name for method in spec.methods], "reproduce")
    return [dataset for dataset in spec.datasets if datasets is None or dataset.name in datasets]


def _draw(
    spec: Spec, dataset: DatasetSpec, task: Task, folder: Path, data: Path, observer: Observer, device: str
) -> list[Path]:
    """Train the methods of a figure, lay their embeddings out and draw them side by side."""
    with observer.phase("Train " + " and ".join(spec.figure)):
        split, results = figure_results(spec, task, device)
    panels = []
    for method, result, _ in results:
        with observer.phase(f"Lay out {method.title} by t-SNE"):
            layout = tsne(result.embedding, seed=0)
        panels.append(
            Panel(title=method.title, layout=layout, predictions=result.predictions, test=split.test)
        )
    labels = torch.from_numpy(task.labels)
    images = load_images(dataset.name, data, dataset.part)
    nodes = draw_nodes(images.labels, dataset)
    images = images if nodes is None else images.subset(nodes)
    with replacing(folder / "figure.jsonl") as temporary:
        temporary.write_text("".join(json.dumps(line) + "\n" for _, _, line in results))
    classes = CLASSES.get(dataset.name)
    for ending in ("png", "pdf"):
        draw_pair(folder / f"figure.{ending}", panels, labels, classes=classes)
    interactive_embedding(
        folder / "figure.html", panels, labels, images.pixels, classes=classes, title=spec.title
    )
    return [folder / name for name in ("figure.png", "figure.pdf", "figure.html", "figure.jsonl")]
