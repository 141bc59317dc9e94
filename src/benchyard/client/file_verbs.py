"""Verbs that work with files of this machine, or its environment: import, export, push, pull, build, copy.

Their work is done in `benchmark_files`, `job_files`, `validation` and others, loaded by the first call: most
programs that talk to a server never need them.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Literal

from benchyard.client.benchmark_files.progress import SILENT, PushProgress
from benchyard.client.benchmark_files.results import (
    ExportResult,
    ImportResult,
    PulledBenchmark,
    PushResult,
    ScenarioValidation,
)
from benchyard.client.bodies import Meter, no_meter
from benchyard.client.job_files.progress import UNSEEN, TrialProgress
from benchyard.client.job_files.results import JobFolder
from benchyard.client.local_methods import Work, concurrent, local
from benchyard.client.methods import S
from benchyard.client.nouns import Nouns
from benchyard.client.plain_text import ignore_sentence
from benchyard.client.resources.agents import Agents
from benchyard.client.resources.benchmarks import Benchmarks
from benchyard.client.resources.blueprints import Blueprints
from benchyard.client.resources.files import Files
from benchyard.client.resources.jobs import Jobs
from benchyard.client.resources.scenarios import Scenarios
from benchyard.client.sessions import SyncSession
from benchyard.client.trial_frames import save_csv, save_parquet, write_csv
from benchyard.models.agents import AgentView
from benchyard.models.blueprints import BlueprintView, BuildLogLine
from benchyard.models.jobs import BenchmarkJobView, JobRequest
from benchyard.models.reports.job_report import TableView
from benchyard.models.runs import RunProfile
from benchyard.models.scenarios import ScenarioView
from benchyard.models.trials import SuspectRule

Folder = str | os.PathLike[str]
Validations = Work[list[ScenarioValidation]]


def _path(given: Folder | None) -> Path | None:
    return None if given is None else Path(given)


def _late(module: str) -> Any:
    return import_module(f"benchyard.{module}")


class AgentSources(Agents[S]):
    """The agents of a server, registered also from folders and files of this machine."""

    @local
    def register(
        self: "AgentSources[SyncSession]",
        name: str,
        run_command: str,
        *,
        npm: str | None = None,
        pip: str | None = None,
        git: str | None = None,
        object: str | None = None,
        ref: str | None = None,
        registry: str | None = None,
        version: str | None = None,
        setup: Sequence[str] = (),
        metadata: Mapping[str, str] | None = None,
        meter: Meter = no_meter,
    ) -> AgentView:
        """Register an agent, or a new version of one, from one source.

        `npm` and `pip` name packages, of a `registry` other than the server's if there is one. `git` is the
        address of a repository, or the folder of one, as it is committed at `ref`. `object` is the id of a
        stored object, or a folder or file, which is stored first. `setup` are commands that install it.
        """
        module = _late("client.agent_sources")
        kinds = {"npm": npm, "pip": pip, "git": git, "object": object}
        given = {kind: value for kind, value in kinds.items() if value is not None}
        wanted = module.AgentSourceOptions(given, ref, registry, setup, meter)
        source = module.source_of(Nouns(self.session), name, wanted)
        labels = None if metadata is None else dict(metadata)
        return self.create(
            name=name, version=version, source=source, run_command=run_command, metadata=labels
        )


class BlueprintFolders(Blueprints[S]):
    """The blueprints of a server, built also from folders and files of this machine."""

    @local
    def build(
        self: "BlueprintFolders[SyncSession]",
        context: Folder | None = None,
        *,
        name: str | None = None,
        dockerfile: Folder | None = None,
        build_args: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
        commands: Sequence[str] = (),
        files: Mapping[str, Folder] | None = None,
        base: str | None = None,
        network_policy: str | None = None,
        metadata: Mapping[str, str] | None = None,
        wait: bool = True,
        tell: Callable[[BuildLogLine], None] | None = None,
        meter: Meter = no_meter,
    ) -> BlueprintView:
        """Build a blueprint of a Dockerfile and its context, of files and commands, or both.

        `context` is the folder that COPY and ADD look into, without what its .dockerignore leaves out; its
        name is that of the blueprint unless another is given. `files` are local files by their paths in the
        image. Returns the built blueprint, or the queued one without `wait`; raises BuildFailed. `tell` is
        called with the lines of the log.
        """
        module = _late("client.blueprint_builds")
        wanted = module.build_of(
            _path(context),
            name=name,
            dockerfile=_path(dockerfile),
            build_args=build_args,
            secrets=secrets,
            commands=commands,
            files={remote: Path(file) for remote, file in (files or {}).items()},
            base=base,
            metadata=metadata,
        )
        client = Nouns(self.session)
        view: BlueprintView = module.begin_build(client, wanted, network_policy, meter)
        if wait:
            view = module.finish_build(client, view, tell)
        return view


class DevboxFolders(Files[S]):
    """The files of a server's devboxes, and folders of this machine that are copied into them and out."""

    @local
    def upload_folder(
        self: "DevboxFolders[SyncSession]",
        devbox_id: str,
        path: str,
        folder: Folder,
        *,
        meter: Meter = no_meter,
    ) -> None:
        """Copy a folder of this machine, so that the path in the devbox has its content."""
        module = _late("client.folder_copy")
        module.upload_folder(Nouns(self.session), devbox_id, path, Path(folder), meter)

    @local
    def download_folder(
        self: "DevboxFolders[SyncSession]",
        devbox_id: str,
        path: str,
        folder: Folder,
        *,
        meter: Meter = no_meter,
    ) -> None:
        """Copy a folder of a devbox, so that the folder of this machine has its content."""
        module = _late("client.folder_copy")
        module.download_folder(Nouns(self.session), devbox_id, path, Path(folder), meter)


class ScenarioFolders(Scenarios[S]):
    """The scenarios of a server, and their folders on this machine."""

    @local
    def new(self: "ScenarioFolders[SyncSession]", folder: Folder) -> Path:
        """Make a folder with a scenario that works, to be changed into another; returns its file.

        No server is asked; `push` makes the scenario on it.
        """
        made: Path = _late("client.benchmark_files.templates").new_scenario(Path(folder))
        return made

    @local
    def new_from_snapshot(
        self: "ScenarioFolders[SyncSession]",
        snapshot: str,
        folder: Folder,
        *,
        working_directory: str | None = None,
    ) -> Path:
        """Make a folder with a scenario that begins with a snapshot, by its id or name; returns its file.

        Without a `working_directory` work is done in the user's home.
        """
        found = _late("client.lookup").find_snapshot_id(Nouns(self.session), snapshot)
        templates = _late("client.benchmark_files.templates")
        made: Path = templates.new_snapshot_scenario(Path(folder), found, working_directory)
        return made

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
    def new(self: "BenchmarkFolders[SyncSession]", folder: Folder) -> Path:
        """Make a folder with a benchmark of one scenario that works; returns its file.

        No server is asked; `push` makes the benchmark on it.
        """
        made: Path = _late("client.benchmark_files.templates").new_benchmark(Path(folder))
        return made

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
            local=_path(local),
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
    """The jobs of a server, and their files on this machine: descriptions, logs, results.

    Also the keys that jobs need of this environment.
    """

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
        tell: Callable[[str], None] = ignore_sentence,
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

    @local
    def request_like(
        self: "JobFiles[SyncSession]", given: str, tell: Callable[[str], None] = ignore_sentence
    ) -> JobRequest:
        """Return the request for a job like another, by its id or name; creates nothing.

        Where the benchmark has not all of its scenarios any more, they are named by themselves, and `tell`
        is called with a sentence that says so.
        """
        client = Nouns(self.session)
        module = _late("client.job_request")
        view = _late("client.lookup").find_job(client, given, tell=tell)
        request: JobRequest = module.finish_body(module.body_like(client, view, tell))
        return request

    @concurrent
    def download_logs(
        self: "JobFiles[SyncSession]",
        given: str,
        folder: Folder | None = None,
        *,
        run: str | None = None,
        scenario: str | None = None,
        progress: TrialProgress = UNSEEN,
    ) -> Work[JobFolder]:
        """Write the logs and results of the trials of a job, by its id or name, each to a folder of its own.

        These are AGENT_MODEL/SCENARIO below the folder, which is `job-logs-ID` if none is given. `run` is the
        id of a benchmark run (one agent) or scenario run, `scenario` an id or name. Trials whose logs cannot
        be fetched are `incomplete` in the result, with the reason.
        """
        module = _late("client.job_files.trial_logs")
        logs = module.find_logs(
            Nouns(self.session), given, _path(folder), run=run, scenario=scenario, progress=progress
        )
        return partial(module.fetch_job_logs, logs=logs, progress=progress)

    @concurrent
    def export_harbor(
        self: "JobFiles[SyncSession]",
        given: str,
        folder: Folder,
        *,
        force: bool = False,
        progress: TrialProgress = UNSEEN,
    ) -> Work[JobFolder]:
        """Write the results of a job, by its id or name, as Harbor does: FOLDER/JOB/TRIAL/result.json.

        Logs, rewards and trajectories are beside that; superseded trials are left out. With `force` a folder
        that is not empty is written over. Trials whose logs cannot be fetched are `incomplete` in the result.
        """
        module = _late("client.job_files.harbor_export")
        export = module.find_export(Nouns(self.session), given, Path(folder), force=force, progress=progress)
        return partial(module.write_export, export=export, progress=progress)

    @local
    def export_table(
        self: "JobFiles[SyncSession]",
        given: str,
        *,
        csv: Folder | IO[str] | None = None,
        parquet: Folder | None = None,
        columns: Sequence[str] | None = None,
        suspect: SuspectRule | None = None,
        tell: Callable[[str], None] = ignore_sentence,
    ) -> TableView:
        """Write the trials of a job, by its id or name, as CSV or Parquet or both; returns them as columns.

        `csv` may be a file that is open for text. A text that a spreadsheet would take for a formula has a
        quote before it there. `tell` is called with a sentence where several jobs have the name.
        """
        table: TableView = _late("client.lookup").of_job(
            Nouns(self.session), given, lambda id: self.table(id, columns, suspect=suspect), tell=tell
        )
        if parquet is not None:
            save_parquet(table, Path(parquet))
        if isinstance(csv, str | os.PathLike):
            save_csv(table, Path(csv))
        elif csv is not None:
            write_csv(table, csv)
        return table


def _validation_options(
    env_vars: Mapping[str, str] | None, secrets: Mapping[str, str] | None, concurrency: int, timeout: float
) -> Any:
    profile = RunProfile(
        env_vars=dict(env_vars) if env_vars else None, secrets=dict(secrets) if secrets else None
    )
    return _late("client.validation").ValidationOptions(profile, concurrency, timeout)
