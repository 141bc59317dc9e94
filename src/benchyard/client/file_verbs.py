"""Verbs that work with files of this machine, or its environment: import, export, push, pull, validate.

Their work is done in `benchmark_files`, `validation` and `job_request`, loaded by the first call: most
programs that talk to a server never need them.
"""

import os
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from benchyard.client.benchmark_files.progress import SILENT, PushProgress
from benchyard.client.benchmark_files.results import (
    ExportResult,
    ImportResult,
    PulledBenchmark,
    PushResult,
    ScenarioValidation,
)
from benchyard.client.local_methods import Work, concurrent, local
from benchyard.client.methods import S
from benchyard.client.nouns import Nouns
from benchyard.client.resources.benchmarks import Benchmarks
from benchyard.client.resources.jobs import Jobs
from benchyard.client.resources.scenarios import Scenarios
from benchyard.client.sessions import SyncSession
from benchyard.models.jobs import BenchmarkJobView, JobRequest
from benchyard.models.runs import RunProfile
from benchyard.models.scenarios import ScenarioView

Folder = str | os.PathLike[str]
Validations = Work[list[ScenarioValidation]]


def _say_nothing(text: str) -> None:
    """Ignore a sentence."""


def _late(module: str) -> Any:
    return import_module(f"benchyard.{module}")


class ScenarioFolders(Scenarios[S]):
    """The scenarios of a server, and their folders on this machine."""

    @local
    def push(
        self: "ScenarioFolders[SyncSession]",
        folder: Folder,
        *,
        dry_run: bool = False,
        progress: PushProgress = SILENT,
    ) -> PushResult:
        """Make the server hold the scenario of a folder; where nothing differs, nothing is done.

        A scenario of the same name is changed: it keeps its id, and its revision counts up.
        """
        folders = _late("client.benchmark_files.folders")
        draft = _late("benchmarks.files.scenario_draft").read_scenario(Path(folder))
        pushed: PushResult = folders.push_scenario(
            Nouns(self.session), draft, dry_run=dry_run, progress=progress
        )
        return pushed

    @local
    def pull(
        self: "ScenarioFolders[SyncSession]", given: str, folder: Folder, *, force: bool = False
    ) -> ScenarioView:
        """Write a scenario, by its id or name, as a folder; pushed again it changes nothing.

        With `force` a folder that is not empty is written over.
        """
        client = Nouns(self.session)
        folders = _late("client.benchmark_files.folders")
        folders.check_folder_is_free(Path(folder), force=force)
        view: ScenarioView = _late("client.lookup").find_scenario(client, given)
        folders.pull_scenario(client, view, Path(folder))
        return view

    @local
    def export(
        self: "ScenarioFolders[SyncSession]",
        given: str,
        folder: Folder,
        *,
        private: bool = False,
        force: bool = False,
    ) -> ExportResult:
        """Write a scenario, by its id or name, as a Harbor task folder.

        `private` is for sets whose authors ask not to publish them in plain text.
        """
        client = Nouns(self.session)
        _late("client.benchmark_files.folders").check_folder_is_free(Path(folder), force=force)
        view = _late("client.lookup").find_scenario(client, given)
        done: ExportResult = _late("client.benchmark_files.task_export").export_scenario(
            client, view, Path(folder), private=private
        )
        return done

    @concurrent
    def validate(
        self: "ScenarioFolders[SyncSession]",
        *given: Folder,
        env_vars: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
        concurrency: int = 4,
        timeout: float = 3600.0,
        record: bool | None = None,
        progress: PushProgress = SILENT,
    ) -> Validations:
        """Show that scenarios can be solved, and not by doing nothing: by id, name, or as folders.

        The reference must score 1.0, doing nothing `nop_score`, each twice the same. The strictest isolation
        in which this holds is stored, unless `record` is False; True also changes a chosen one that does not
        work. `timeout` is in seconds, for one run.
        """
        validation = _late("client.validation")
        client = Nouns(self.session)
        wanted = [validation.scenario_target(client, each, progress) for each in given]
        options = _validation_options(env_vars, secrets, concurrency, timeout)
        return partial(
            validation.validate_all, wanted=wanted, options=options, record=record, progress=progress
        )


class BenchmarkFolders(Benchmarks[S]):
    """The benchmarks of a server; their folders on this machine, and the public ones that can be imported."""

    @local
    def import_(
        self: "BenchmarkFolders[SyncSession]",
        given: Folder,
        *,
        name: str | None = None,
        local: Folder | None = None,
        variant: str | None = None,
        seed: int = 0,
        limit: int | None = None,
        network: Literal["task", "gateway"] = "task",
        token: str | None = None,
        dry_run: bool = False,
        progress: PushProgress = SILENT,
    ) -> ImportResult:
        """Import a public benchmark by name, or the task folders of a folder or a git repository.

        Files are read here and sent to the server. Broken items are named and left out, the rest is
        imported. To import the same again changes nothing. `local` is a copy of a public benchmark's data;
        `token` opens data of the Hugging Face hub whose terms you accepted.
        """
        module = _late("client.benchmark_files.benchmark_import")
        wish = module.BenchmarkImport(
            given=os.fspath(given),
            name=name,
            local=None if local is None else Path(local),
            variant=variant,
            seed=seed,
            limit=limit,
            network=network,
            token=token,
            dry_run=dry_run,
            progress=progress,
        )
        done: ImportResult = module.import_benchmark(Nouns(self.session), wish)
        return done

    @local
    def export(
        self: "BenchmarkFolders[SyncSession]",
        given: str,
        folder: Folder,
        *,
        private: bool = False,
        force: bool = False,
    ) -> ExportResult:
        """Write a benchmark, by its id or name, as Harbor task folders and a dataset.toml.

        Scenarios that cannot be run elsewhere are named, and the others are written. `private` is for sets
        whose authors ask not to publish them in plain text.
        """
        client = Nouns(self.session)
        _late("client.benchmark_files.folders").check_folder_is_free(Path(folder), force=force)
        view = _late("client.lookup").find_benchmark(client, given)
        done: ExportResult = _late("client.benchmark_files.task_export").export_benchmark(
            client, view, Path(folder), private=private
        )
        return done

    @local
    def push(
        self: "BenchmarkFolders[SyncSession]",
        folder: Folder,
        *,
        dry_run: bool = False,
        progress: PushProgress = SILENT,
    ) -> list[PushResult]:
        """Make the server hold the benchmark of a folder, and the scenarios whose folders it names.

        The last result is that of the benchmark.
        """
        folders = _late("client.benchmark_files.folders")
        draft = _late("benchmarks.files.benchmark_file").read_benchmark(Path(folder))
        pushed: list[PushResult] = folders.push_benchmark(
            Nouns(self.session), draft, dry_run=dry_run, progress=progress
        )
        return pushed

    @local
    def pull(
        self: "BenchmarkFolders[SyncSession]", given: str, folder: Folder, *, force: bool = False
    ) -> PulledBenchmark:
        """Write a benchmark, by its id or name, as a folder, with one for each scenario that is not public.

        With `force` a folder that is not empty is written over.
        """
        client = Nouns(self.session)
        folders = _late("client.benchmark_files.folders")
        folders.check_folder_is_free(Path(folder), force=force)
        view = _late("client.lookup").find_benchmark(client, given)
        return PulledBenchmark(view, folders.pull_benchmark(client, view, Path(folder)))

    @concurrent
    def validate(
        self: "BenchmarkFolders[SyncSession]",
        given: Folder,
        *,
        sample: int | None = None,
        seed: int = 0,
        env_vars: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
        concurrency: int = 4,
        timeout: float = 3600.0,
        record: bool | None = None,
        progress: PushProgress = SILENT,
    ) -> Validations:
        """Validate the scenarios of a benchmark, by id, name, or as a folder; or a sample of them.

        See `scenarios.validate`.
        """
        validation = _late("client.validation")
        every = validation.benchmark_targets(Nouns(self.session), given, progress)
        wanted = validation.choose_sample(every, sample, seed)
        options = _validation_options(env_vars, secrets, concurrency, timeout)
        return partial(
            validation.validate_all, wanted=wanted, options=options, record=record, progress=progress
        )


class JobFiles(Jobs[S]):
    """The jobs of a server, the files that describe them, and the keys that they need of this environment."""

    @local
    def read(self: "JobFiles[SyncSession]", file: Folder) -> JobRequest:
        """Return the request that a job's file describes, with ids in place of names; creates nothing."""
        module = _late("client.job_request")
        body = module.with_ids(Nouns(self.session), module.body_of_file(Path(file)))
        request: JobRequest = module.finish_body(body)
        return request

    @local
    def with_provider_keys(
        self: "JobFiles[SyncSession]",
        request: JobRequest,
        environ: Mapping[str, str] | None = None,
        tell: Callable[[str], None] = _say_nothing,
    ) -> JobRequest:
        """Make a secret of each key of a model provider that the job's agents need and the environment has.

        Returns the request with these secrets, which are named BMJ_ and the variable. `tell` is called with
        a sentence for each secret that is made or changed.
        """
        given = os.environ if environ is None else environ
        body = request.model_dump(mode="json", exclude_none=True)
        keys = _late("client.provider_keys")
        return JobRequest.model_validate(keys.with_known_keys(Nouns(self.session), body, given, tell))

    @local
    def create_from_file(
        self: "JobFiles[SyncSession]", file: Folder, environ: Mapping[str, str] | None = None
    ) -> BenchmarkJobView:
        """Create the job that a file describes, with the keys of model providers that the environment has."""
        return self.create(self.with_provider_keys(self.read(file), environ))


def _validation_options(
    env_vars: Mapping[str, str] | None, secrets: Mapping[str, str] | None, concurrency: int, timeout: float
) -> Any:
    profile = RunProfile(
        env_vars=dict(env_vars) if env_vars else None, secrets=dict(secrets) if secrets else None
    )
    return _late("client.validation").ValidationOptions(profile, concurrency, timeout)
