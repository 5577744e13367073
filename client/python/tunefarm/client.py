"""The daemon's calls from Python."""

from __future__ import annotations

import os
import sys
import time
import uuid
from typing import TYPE_CHECKING, Any, Callable, Iterator, List, Literal, Mapping, Optional, Sequence, Tuple, Union, overload

import grpc

from tunefarm import _calls, _connection, _data_files, _definition_data, _definitions, _requests, _wire, model
from tunefarm._display import angle, notebook
from tunefarm._progress import ProgressDisplay
from tunefarm._run import Run, chosen_id
from tunefarm._visible import visible
from tunefarm.errors import (AbortedError, DeadlineExceededError, FailedPreconditionError, InternalError,
                             InvalidArgumentError, JobCancelledError, JobFailedError, NotFoundError, TunefarmError, UnavailableError)
from tunefarm.results import Listing, Page, Results
from tunefarm.v1 import (data_file_service_pb2_grpc, device_service_pb2, device_service_pb2_grpc, job_pb2, kernel_service_pb2,
                         kernel_service_pb2_grpc, lookup_service_pb2, lookup_service_pb2_grpc, package_service_pb2,
                         package_service_pb2_grpc, server_service_pb2, server_service_pb2_grpc, tuning_service_pb2, tuning_service_pb2_grpc)

if TYPE_CHECKING:
    from tunefarm import launch

JobLike = Union[int, str, model.Job]
KernelLike = Union[str, "os.PathLike[str]"]

_CONNECT_SECONDS = 5.0
_PAGE_SIZE = 1000
# A stream is reopened after so long, so that a frozen daemon is noticed even where nothing happens.
_STREAM_SECONDS = 15.0
_ALIVE_SECONDS = 10.0
_CANCEL_SECONDS = 10.0
_LAST_PART_SECONDS = 600.0
_PACKAGE_SECONDS = 600.0
# After a first Ctrl-C, where somebody sits in front of it.
_SECOND_CTRL_C_SECONDS = 3.0


class Client:
    """A connection to a daemon: `server` ("unix:/path" or "host:port"), else the private daemon of `data_directory`,
    else what TUNEFARM_SERVER names, else the private daemon of TUNEFARM_DATA_DIR or of the default data directory. A
    private daemon that does not run is started, unless `start` is False (by the program tunefarm: beside this package
    in a build tree or an installation, else on PATH).

    UnavailableError when there is no daemon. Threads may share a Client and call anything at any time; after a fork the
    child needs one of its own. `timeout` is each call's deadline in seconds unless the call names another; a call never
    blocks longer. Calls that change nothing, and submit (whose request_id makes it safe), are repeated for
    `retry_seconds` while the daemon is not there; all others are sent once. Usable in a `with` statement.

    `tls_ca` (a file) makes it talk TLS; `tls_certificate` and `tls_key`, or `token` or `token_file`, say who calls. What
    is not given comes from TUNEFARM_TLS_CA, TUNEFARM_CLIENT_CERTIFICATE, TUNEFARM_CLIENT_KEY, TUNEFARM_TOKEN and
    TUNEFARM_TOKEN_FILE.
    """

    def __init__(self, server: Optional[str] = None, *, data_directory: Optional[KernelLike] = None, start: bool = True,
                 timeout: float = 60.0, retry_seconds: float = 5.0, tls_ca: Optional[KernelLike] = None,
                 tls_certificate: Optional[KernelLike] = None, tls_key: Optional[KernelLike] = None,
                 token: Optional[str] = None, token_file: Optional[KernelLike] = None) -> None:
        self._timeout = _calls.checked_timeout(timeout)
        self._retry_seconds = retry_seconds
        self._closed = False
        self.address = _connection.find_server(server, os.fspath(data_directory) if data_directory else None, start)
        channel = _connection.open_channel(self.address, _calls.OPTIONS, tls_ca=tls_ca, tls_certificate=tls_certificate,
                                           tls_key=tls_key, token=token, token_file=token_file)
        try:
            grpc.channel_ready_future(channel).result(timeout=min(_CONNECT_SECONDS, self._timeout))
        except grpc.FutureTimeoutError:
            channel.close()
            raise _connection.why_unreachable(self.address, tls_ca) from None
        self._channel = channel
        self._data_files = data_file_service_pb2_grpc.DataFileServiceStub(channel)
        self._kernels = kernel_service_pb2_grpc.KernelServiceStub(channel)
        self._tuning = tuning_service_pb2_grpc.TuningServiceStub(channel)
        self._lookup = lookup_service_pb2_grpc.LookupServiceStub(channel)
        self._packages = package_service_pb2_grpc.PackageServiceStub(channel)
        self._devices = device_service_pb2_grpc.DeviceServiceStub(channel)
        self._server = server_service_pb2_grpc.ServerServiceStub(channel)

    def __repr__(self) -> str:
        return angle("Client", "of", self.address, "closed" if self._closed else "")

    def close(self) -> None:
        """Ends calls in flight with AbortedError, and so does each that is made afterwards."""
        self._closed = True
        self._channel.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The daemon and its devices.

    def info(self, *, timeout: Optional[float] = None) -> model.ServerInfo:
        """Version, directories, counts."""
        request = server_service_pb2.GetServerInfoRequest()
        return _wire.server_info(self._read(self._server.GetServerInfo, request, timeout))

    def devices(self, *, timeout: Optional[float] = None) -> List[model.Device]:
        """All devices of the machine, GPUs first."""
        request = device_service_pb2.ListDevicesRequest(page_size=_PAGE_SIZE)
        return Listing(map(_wire.device, self._pages(self._devices.ListDevices, request, "devices", timeout)))

    # Kernels.

    def kernels(self, *, timeout: Optional[float] = None) -> List[model.Kernel]:
        """The stored definitions, newest first."""
        request = kernel_service_pb2.ListKernelsRequest(page_size=_PAGE_SIZE)
        return Listing(map(_wire.kernel, self._pages(self._kernels.ListKernels, request, "kernels", timeout)))

    def kernel(self, name: str, *, timeout: Optional[float] = None) -> model.Kernel:
        """One stored definition, by "kernels/{id}" or by display name (the newest). NotFoundError if there is none."""
        request = kernel_service_pb2.GetKernelRequest(name=name)
        return _wire.kernel(self._read(self._kernels.GetKernel, request, timeout).kernel)

    def create_kernel(self, path: KernelLike, *, validate_only: bool = False,
                      timeout: Optional[float] = None) -> model.Kernel:
        """Checks and stores a definition (a file, a folder with one, or the name of a built-in kernel) with its sources,
        and uploads its data files (not with `validate_only`). Storing the same one again changes nothing, so that the
        call is repeated like a read."""
        def describe() -> Tuple[str, Any]:
            return self._definition(path, None, None, None if validate_only else self._data_link(timeout, False), timeout)

        def send(name: str, definition: Any) -> Any:
            if definition is None:
                raise InvalidArgumentError(f"'{name}' is neither a file nor a built-in kernel")
            request = kernel_service_pb2.CreateKernelRequest(kernel=definition, validate_only=validate_only)
            return self._read(self._kernels.CreateKernel, request, timeout)

        return _wire.kernel(_with_data(describe, send).kernel)

    def delete_kernel(self, name: str, *, timeout: Optional[float] = None) -> None:
        """Deletes a stored definition, by "kernels/{id}"; best configs, their history and ended jobs stay. For who
        submitted it first and for administrators; FailedPreconditionError while a job of it has not ended."""
        self._write(self._kernels.DeleteKernel, kernel_service_pb2.DeleteKernelRequest(name=name), timeout)

    # The users' own data.

    def upload_file(self, path: KernelLike, data_type: Optional[str] = None, *, progress: bool = True,
                    timeout: Optional[float] = None) -> Any:
        """Uploads the elements of a .npy file (versions 1.0 to 3.0, C order, little-endian, no objects) or, under any
        other name, a file of raw little-endian elements; at most 2 GiB. Returns what names them in a definition, a
        `tunefarm.v1.kernel_pb2.DataFile`. What the daemon has by content is not sent again, and an upload that broke off
        is continued; memory does not grow with the file. `timeout` is that of each part of 1 MiB. `progress`: from 8 MiB
        on, it is shown how far the upload is.

        `data_type` ("bf16", "f8e4m3", "f32", ...) says what raw elements are: those of files without header, and those that
        .npy files have as V1, V2, u2 and the like. InvalidArgumentError for a file that is damaged, of another type, or
        changes while it is read; ResourceExhaustedError (DATA_FILE_QUOTA) where the daemon has no space for it.
        """
        with _data_files.opened(path) as elements:
            chosen = _data_files.chosen_type(elements, data_type)
            return _data_files.describe(elements, chosen, self._data_link(timeout, progress))

    def upload_array(self, array: Any, data_type: Optional[str] = None, *, progress: bool = True,
                     timeout: Optional[float] = None) -> Any:
        """upload_file for an array of NumPy, PyTorch, CuPy, or whatever has `__array__`, in row-major order."""
        elements = _data_files.of_array(array)
        chosen = _data_files.chosen_type(elements, data_type)
        return _data_files.describe(elements, chosen, self._data_link(timeout, progress))

    def _definition(self, kernel: KernelLike, inputs: Optional[Mapping[str, Any]], expected: Optional[Mapping[str, Any]],
                    link: Optional[_data_files.Link], timeout: Optional[float]) -> Tuple[str, Any]:
        """(name, definition or None) of what a caller names, with all its data named by digest, and uploaded by `link`."""
        name, definition, file = _definitions.resolve(kernel)
        if definition is None and (inputs or expected):
            request = kernel_service_pb2.GetKernelRequest(name=name, include_sources=True)
            definition = self._read(self._kernels.GetKernel, request, timeout).kernel
            definition.name = definition.program_digest = ""
        if definition is not None:
            _definition_data.fill(definition, file.parent if file else None, inputs, expected, link)
        return name, definition

    def _data_link(self, timeout: Optional[float], shows_progress: bool) -> _data_files.Link:
        def call(method: str, request: Any) -> Any:
            seconds = self._timeout if timeout is None else timeout
            if _data_files.is_last_part(request):  # the daemon reads and syncs the whole file before it answers
                seconds = max(seconds, _LAST_PART_SECONDS)
            return self._read(getattr(self._data_files, method), request, seconds)

        return _data_files.Link(call, shows_progress)

    # Jobs.

    def submit(self, kernel: KernelLike, *, dims: Optional[Mapping[str, Any]] = None,
               problems: Optional[Sequence[Mapping[str, Any]]] = None, pinned: Optional[Mapping[str, Any]] = None,
               input_seeds: Sequence[int] = (), device: str = "", strategy: str = "",
               strategy_options: Optional[Mapping[str, Any]] = None, seed: int = 0, max_trials: int = 0,
               max_seconds: int = 0, max_device_seconds: float = 0.0, stop_within_floor: float = 0.0, patience: int = 0,
               policy: str = "default", measure: Optional[Mapping[str, Any]] = None, priority: int = 0,
               retry_poisoned: bool = False, required_isolation: str = "", label: str = "", no_promotion: bool = False,
               promote_given: bool = False, no_memory: bool = False, inputs: Optional[Mapping[str, Any]] = None,
               expected: Optional[Mapping[str, Any]] = None, request_id: Optional[str] = None, progress: bool = False,
               timeout: Optional[float] = None, objective: str = "time") -> model.Job:
        """Queues a job and returns it as stored; it goes on whatever becomes of this process.

        `kernel`: a definition file, a folder with one, the name of a built-in or a stored kernel. `dims` maps
        names to values; a list of values makes a problem of each combination. `problems` lists whole problems instead,
        which take from `dims` what they lack. `device`, `strategy`, budgets (0: no bound) and `policy` (fast, default,
        rigorous) are as the command line's; `measure` sets single knobs of the policy ({"final_rounds": 9}).

        What earlier jobs measured guides the search and is not measured again. `no_memory=True` searches as if they had
        found nothing; with `measure={"no_reuse": True}` each config is measured again.

        The winner of the final becomes the kernel's best config. Not with `no_promotion=True`, nor where `max_trials` is
        1, which is no search: with `promote_given=True` also then.

        `objective`: what the final decides by: "time", "energy" or "energy_delay", their product. The search goes by
        time in any case. Energy is measured of finalists on NVIDIA GPUs, and only winners by time become best configs.

        `inputs` fills buffers of the kernel with data of your own: {"x": array, "rows": "rows.npy"} maps their names to
        arrays or files (see upload_array and upload_file), which are uploaded first; data that differ make another
        definition. `expected` maps all outputs to what they must equal, in place of the definition's reference.
        `progress` shows how far large uploads are.

        The same `request_id` with the same body is the same job for 7 days, so that repeating a call whose answer got
        lost makes no second one; by default each call has an id of its own, which its repetitions share.
        """
        job = _requests.message(
            job_pb2.Job, problems=_requests.problems(dims, problems, pinned, input_seeds), device_selector=device,
            strategy=_requests.strategy(strategy, strategy_options, seed),
            budget=_requests.message(
                job_pb2.Budget, max_trials=max_trials, max_seconds=max_seconds, max_device_seconds=max_device_seconds,
                stop_within_floor=stop_within_floor, max_trials_without_gain=patience),
            policy=_requests.policy(policy, measure), priority=priority, retry_poisoned=retry_poisoned,
            required_isolation=required_isolation, label=label, no_promotion=no_promotion,
            promote_given=promote_given, no_memory=no_memory, objective=_requests.objective(objective))
        own_id = request_id or str(uuid.uuid4())

        def describe() -> Tuple[str, Any]:
            return self._definition(kernel, inputs, expected, self._data_link(timeout, progress), timeout)

        def send(name: str, definition: Any) -> Any:
            job.kernel = "" if definition is not None else name
            request = tuning_service_pb2.CreateJobRequest(job=job, kernel_definition=definition, request_id=own_id)
            return self._read(self._tuning.CreateJob, request, timeout)

        return _wire.job(_with_data(describe, send).job)

    def job(self, job: JobLike, *, timeout: Optional[float] = None) -> model.Job:
        """As it is now, with its studies. NotFoundError if there is none."""
        request = tuning_service_pb2.GetJobRequest(name=_requests.job_name(job))
        return _wire.job(self._read(self._tuning.GetJob, request, timeout).job)

    def jobs(self, *, states: Sequence[model.JobState] = (), kernel: str = "", label: str = "",
             submitted_by: str = "", device_class: str = "", timeout: Optional[float] = None) -> List[model.Job]:
        """Newest first, without studies; only those in `states`, if any are named, of the kernel of this display name,
        with this label, submitted by this certificate or token and with a study of the device class of this id, where
        these are given."""
        numbers = [_requests.number(state) for state in states]
        request = tuning_service_pb2.ListJobsRequest(
            page_size=_PAGE_SIZE, states=numbers, kernel_name=kernel, label=label, submitted_by=submitted_by,
            device_class_id=device_class)
        return Listing(map(_wire.job, self._pages(self._tuning.ListJobs, request, "jobs", timeout)))

    def cancel(self, job: JobLike, *, timeout: Optional[float] = None) -> model.Job:
        """Hands out no more trials. FailedPreconditionError if the job has ended."""
        request = tuning_service_pb2.CancelJobRequest(name=_requests.job_name(job))
        return _wire.job(self._write(self._tuning.CancelJob, request, timeout).job)

    def pause(self, job: JobLike, *, timeout: Optional[float] = None) -> model.Job:
        """Hands out no more trials until resumed. FailedPreconditionError unless QUEUED or RUNNING."""
        request = tuning_service_pb2.PauseJobRequest(name=_requests.job_name(job))
        return _wire.job(self._write(self._tuning.PauseJob, request, timeout).job)

    def resume(self, job: JobLike, *, timeout: Optional[float] = None) -> model.Job:
        """FailedPreconditionError unless PAUSED."""
        request = tuning_service_pb2.ResumeJobRequest(name=_requests.job_name(job))
        return _wire.job(self._write(self._tuning.ResumeJob, request, timeout).job)

    def delete(self, job: JobLike, *, timeout: Optional[float] = None) -> None:
        """Removes an ended job and its trials; bests stay. FailedPreconditionError while it runs."""
        self._write(self._tuning.DeleteJob, tuning_service_pb2.DeleteJobRequest(name=_requests.job_name(job)), timeout)

    def watch(self, job: JobLike, *, after_event_id: int = 0, timeout: Optional[float] = None,
              reconnect_seconds: float = 30.0) -> Iterator[model.JobEvent]:
        """Events until the job ends: first a snapshot of the job, or what followed `after_event_id`.

        A broken stream is resumed after the last event, so that none is missed or seen twice; where the daemon does not
        have them any more (it was restarted, or too many happened meanwhile) a new snapshot comes instead.
        UnavailableError when the daemon has not answered for `reconnect_seconds`, DeadlineExceededError after `timeout`
        seconds (None: never). Leave it at any time; the job goes on.
        """
        # Checked here and not where the first event is asked for.
        name, reconnect_seconds = _requests.job_name(job), _calls.checked_timeout(reconnect_seconds)
        return self._watch(name, after_event_id, _calls.Deadline(timeout), reconnect_seconds)

    def _watch(self, name: str, last_id: int, deadline: _calls.Deadline,
               reconnect_seconds: float) -> Iterator[model.JobEvent]:
        give_up = _calls.Deadline(reconnect_seconds)
        pauses = _calls.Pauses()
        while True:
            request = tuning_service_pb2.WatchJobRequest(name=name, after_event_id=last_id)
            stream = self._or_closed(self._tuning.WatchJob, request, timeout=max(deadline.left(_STREAM_SECONDS), 0.001))
            heard = False
            try:
                for response in stream:
                    heard = True
                    last_id = response.event.event_id
                    yield _wire.job_event(response.event)
                return
            except grpc.RpcError as error:
                failure = _calls.error_from(error)
            finally:
                stream.cancel()
            if self._closed:
                raise _closed_error()
            if deadline.is_over:
                raise DeadlineExceededError(f"{name} has not ended in time", code="DEADLINE_EXCEEDED")
            if isinstance(failure, DeadlineExceededError) and not heard:
                heard = self._is_alive(deadline)
            elif not isinstance(failure, (DeadlineExceededError, UnavailableError, AbortedError)):
                raise failure
            if heard:
                give_up = _calls.Deadline(reconnect_seconds)
                pauses = _calls.Pauses()
            elif give_up.is_over:
                raise UnavailableError(f"the daemon at {self.address} has not answered for {reconnect_seconds:g} s",
                                       code="UNAVAILABLE")
            if not isinstance(failure, DeadlineExceededError):
                pauses.wait(deadline.left())

    def _is_alive(self, deadline: _calls.Deadline) -> bool:
        try:
            self.info(timeout=max(deadline.left(_ALIVE_SECONDS), 0.001))
        except (DeadlineExceededError, UnavailableError):
            return False
        return True

    def wait(self, job: JobLike, *, timeout: Optional[float] = None,
             on_event: Optional[Callable[[model.JobEvent], None]] = None) -> model.Job:
        """Blocks until the job has ended and returns it, however it ended. As watch otherwise."""
        deadline = _calls.Deadline(timeout)
        for event in self.watch(job, timeout=timeout):
            if on_event is not None:
                on_event(event)
        return self.job(job, timeout=max(deadline.left(self._timeout), 0.001))

    def tune(self, kernel: KernelLike, *, progress: Union[bool, Callable[[model.JobEvent], None]] = True,
             timeout: Optional[float] = None, **submit: Any) -> model.Job:
        """Submits a job, waits for its end, and returns it; `job.best` is the winner, or None if no config was valid.

        `progress`: a bar (on a terminal and in a notebook, plain lines elsewhere), nothing, or a function of each event;
        the bar also shows large uploads.
        `submit` is as for submit. Ctrl-C detaches: it says how to come back and goes on as KeyboardInterrupt, and the job
        continues; a second Ctrl-C cancels the job. `timeout`, the seconds for all of it, cancels it with
        DeadlineExceededError. When the daemon is lost the job goes on there and the error names it.
        JobFailedError, JobCancelledError.
        """
        deadline = _calls.Deadline(timeout)
        try:
            job = self.submit(kernel, progress=progress is True, timeout=deadline.left(self._timeout), **submit)
        except (KeyboardInterrupt, DeadlineExceededError):
            _say(None, "The job may have been queued; tunefarm jobs list shows it.")
            raise
        display = ProgressDisplay() if progress is True else None
        listener = display or (progress if callable(progress) else None)
        try:
            left = deadline.left()
            ended = self.wait(job, timeout=None if left == float("inf") else max(left, 0.001), on_event=listener)
        except KeyboardInterrupt:
            self._detach(job, display)
            raise
        except DeadlineExceededError:
            _say(display, self._cancel_text(job))
            raise
        except TunefarmError as error:
            _say(display, f"Lost sight of job {job.number}, which may go on: {error}")
            raise
        finally:
            if display is not None:
                display.close()
        if ended.state == model.JobState.FAILED:
            raise JobFailedError(f"job {ended.number} failed: {ended.error}", ended)
        if ended.state == model.JobState.CANCELLED:
            raise JobCancelledError(f"job {ended.number} was cancelled; what it found stays: client.results({ended.number})",
                                    ended)
        return ended

    def _detach(self, job: model.Job, display: Optional[ProgressDisplay]) -> None:
        number = job.number
        try:
            _say(display, f"Detached; job {number} continues. Follow: client.wait({number}) or tunefarm jobs watch {number}   "
                 f"Stop: client.cancel({number}) or tunefarm jobs cancel {number}")
            if sys.stderr.isatty() or notebook() is not None:
                _say(display, f"Ctrl-C again within {_SECOND_CTRL_C_SECONDS:g} s cancels it.")
                time.sleep(_SECOND_CTRL_C_SECONDS)
        except KeyboardInterrupt:
            _say(display, self._cancel_text(job))

    def _cancel_text(self, job: model.Job) -> str:
        try:
            self.cancel(job, timeout=min(_CANCEL_SECONDS, self._timeout))
        except TunefarmError as error:
            return f"Job {job.number} could not be cancelled: {error}"
        return f"Cancelled job {job.number}; what it found stays: client.results({job.number})"

    # Results.

    def results(self, job: JobLike, *, study: int = 0, outcomes: Sequence[model.Outcome] = (),
                purpose: model.TrialPurpose = model.TrialPurpose.UNSPECIFIED, order_by_time: bool = False,
                timeout: Optional[float] = None) -> Results:
        """The trials of a job, or of its study number `study` (from 1), by study and ordinal, or the fastest first.
        Nothing is fetched before it is asked for. Damaged trials are left out with a warning: see Results."""
        parent = _requests.job_name(job) + (f"/studies/{study}" if study else "")
        request = tuning_service_pb2.ListTrialsRequest(
            parent=parent, page_size=_PAGE_SIZE, order_by_time=order_by_time,
            outcomes=[_requests.number(outcome) for outcome in outcomes], purpose=_requests.number(purpose))

        def fetch_page(token: str) -> Page:
            page = tuning_service_pb2.ListTrialsRequest()
            page.CopyFrom(request)
            page.page_token = token
            response = self._read(self._tuning.ListTrials, page, timeout)
            return [_wire.trial(item) for item in response.trials], response.next_page_token, response.unreadable

        def fetch_parameters() -> Sequence[str]:
            try:
                kernel = self.kernel(self.job(job, timeout=timeout).kernel, timeout=timeout)
            except NotFoundError:  # Deleted; its jobs stay.
                return []
            return [parameter.name for parameter in kernel.parameters]

        return Results(fetch_page, fetch_parameters, parent)

    def trial(self, name: str, *, timeout: Optional[float] = None) -> model.Trial:
        """One trial with its log, by Trial.name."""
        request = tuning_service_pb2.GetTrialRequest(name=name)
        return _wire.trial(self._read(self._tuning.GetTrial, request, timeout).trial)

    # Look-ups.

    def best(self, kernel: KernelLike, device: Optional[str] = None, worst_match: Union[str, model.Match] = "DEFAULT", *,
             problem: Optional[Mapping[str, Any]] = None, timeout: Optional[float] = None, **dims: Any) -> model.Answer:
        """The best config for a kernel and a problem, whose missing dims take their defaults:
        best("matmul", M=4096, N=4096, K=4096). `problem` is for dims that are called like an argument.

        `kernel`: a display name (its newest definition, which is the one that was submitted last), "kernels/{id}", or the
        path of a definition or of its folder ("./matmul", or a Path): then that definition is asked for, and what others
        of its name have found is STALE_SOURCE at best. The daemon computes the digest of a path's definition, which takes
        the right to submit kernels.

        `device` None: the first ready one of the kernel's language. An answer worse than `worst_match` is NOT_FOUND,
        which is no error: the Answer is then false and its config empty. With "EXACT", only what was tuned for this
        problem and device class counts. NotFoundError for a kernel that nobody has stored.
        """
        name, digest = self._asked(kernel, timeout)
        request = lookup_service_pb2.LookupConfigRequest(
            kernel=name, program_digest=digest, device_selector=device or "", worst_match=_requests.match(worst_match))
        _wire.fill_values(request.problem.dims, {**(problem or {}), **dims}, "dim")
        return _wire.answer(self._read(self._lookup.LookupConfig, request, timeout))

    def join_run(self, run_id: Optional[str] = None, *, snapshot: Optional[KernelLike] = None,
                 timeout: Optional[float] = None) -> Run:
        """For a process of a distributed run: the Run whose `best` gives all of its processes the same answers, here and
        on all control daemons of the farm. At the start of the process: what the run agrees on begins with the catalog as
        it is when the first one joins. `run_id` is any text that all processes of the run share, and no other run has had
        in the last 30 days; None: TORCHELASTIC_RUN_ID.

        `snapshot`: a file of `tunefarm export snapshot` from this farm, for when the daemon is lost (see Run.best)."""
        return Run(self, chosen_id(run_id, os.environ), snapshot, timeout)

    @overload
    def best_batch(self, kernel: KernelLike, columns: Mapping[str, Sequence[Any]], device: Optional[str] = None,
                   worst_match: Union[str, model.Match] = "DEFAULT", *, configs_only: Literal[False] = False,
                   timeout: Optional[float] = None, **common_dims: Any) -> model.BatchAnswer:
        ...

    @overload
    def best_batch(self, kernel: KernelLike, columns: Mapping[str, Sequence[Any]], device: Optional[str] = None,
                   worst_match: Union[str, model.Match] = "DEFAULT", *, configs_only: Literal[True],
                   timeout: Optional[float] = None, **common_dims: Any) -> model.BatchConfigs:
        ...

    def best_batch(self, kernel: KernelLike, columns: Mapping[str, Sequence[Any]], device: Optional[str] = None,
                   worst_match: Union[str, model.Match] = "DEFAULT", *, configs_only: bool = False,
                   timeout: Optional[float] = None,
                   **common_dims: Any) -> Union[model.BatchAnswer, model.BatchConfigs]:
        """best() for many problems at once: `columns` maps dims to equally long lists (or NumPy arrays) of ints or of
        strings, `common_dims` are the same in all. Any length; 10,000 problems go into one call of the daemon, and
        `timeout` is for all of them together. `configs_only`: configs and times instead of whole bests, many times
        faster where each problem has a best of its own."""
        lengths = {dim: len(values) for dim, values in columns.items()}
        if len(set(lengths.values())) != 1:
            raise InvalidArgumentError(f"columns: need at least one, all of one length; these have {lengths}")
        count = next(iter(lengths.values()))
        deadline = _calls.Deadline(self._timeout if timeout is None else timeout)
        collected = _Batch()
        name, digest = self._asked(kernel, max(deadline.left(), 0.001))
        for first in range(0, count, _requests.BATCH_MAX):
            request = lookup_service_pb2.BatchLookupConfigsRequest(
                kernel=name, program_digest=digest, device_selector=device or "", worst_match=_requests.match(worst_match),
                columns=_requests.columns(columns, first, first + _requests.BATCH_MAX), configs_only=configs_only)
            _wire.fill_values(request.common_dims, common_dims, "dim")
            left = max(deadline.left(), 0.001)
            collected.add(self._read(self._lookup.BatchLookupConfigs, request, left))
        return collected.configs() if configs_only else collected.answer()

    def bests(self, kernel: KernelLike = "", *, timeout: Optional[float] = None) -> List[model.BestConfig]:
        """What is in the catalog: of all kernels, of a name, or of the definition that a path names (see best)."""
        name, digest = self._asked(kernel, timeout)
        request = lookup_service_pb2.ListBestConfigsRequest(kernel=name, program_digest=digest, page_size=_PAGE_SIZE)
        return Listing(map(_wire.best_config, self._pages(self._lookup.ListBestConfigs, request, "bests", timeout)))

    def package(self, kernel: KernelLike = "", device: Optional[str] = None, dims: Optional[Mapping[str, Any]] = None, *,
                timeout: Optional[float] = None) -> "launch.Package":
        """Best configs with their binaries, which the daemon compiles where it has them no more: as a package that
        `tunefarm.launch` launches, also when the daemon has ended. `package("matmul", "H100", {"M": [1024, 2048]})`.

        `kernel`: a name, "kernels/{id}" or the path of a definition, for which only its own bests count; "": all
        kernels. `device`: a device class by its id, its name or a word of its name ("H100"). `dims`: problems that have
        this value of a dim, or one of a list. What was left out and why says `left_out` of the package.

        `timeout` None: 10 minutes. NotFoundError for no such best; FailedPreconditionError (PACKAGE_EMPTY) where none
        can be packaged. Needs the right to submit kernels, and libtunefarm-launch.so.1. A package is code: it runs with
        the rights of this process.
        """
        from tunefarm import launch

        request = package_service_pb2.ExportPackageRequest(device_class=device or "", dims=_requests.dim_filters(dims))
        if _definitions.is_path(kernel):
            request.kernel, definition = self._definition(kernel, None, None, None, timeout)
            request.definitions.append(definition)
        else:
            request.kernel = str(kernel)
        contents, content = self._read(self._whole_package, request, _PACKAGE_SECONDS if timeout is None else timeout)
        if len(content) != contents.file_bytes:
            raise InternalError(f"the daemon sent {len(content)} bytes of a package of {contents.file_bytes}")
        package = launch.open_bytes(content)
        package.left_out = tuple(contents.left_out)
        return package

    def _whole_package(self, request: Any, timeout: float) -> Tuple[Any, bytes]:
        contents, parts = package_service_pb2.PackageContents(), []
        for response in self._packages.ExportPackage(request, timeout=timeout):
            if response.HasField("contents"):
                contents = response.contents
            parts.append(response.data)
        return contents, b"".join(parts)

    def _asked(self, kernel: KernelLike, timeout: Optional[float]) -> Tuple[str, str]:
        """The name to ask for, and the program_digest of a path's definition."""
        if not _definitions.is_path(kernel):
            return str(kernel), ""
        checked = self.create_kernel(kernel, validate_only=True, timeout=timeout)
        return checked.display_name, checked.program_digest

    # How calls are made.

    def _read(self, method: Callable[..., Any], request: Any, timeout: Optional[float]) -> Any:
        timeout = self._timeout if timeout is None else timeout
        return self._or_closed(_calls.call, method, request, timeout, self._retry_seconds)

    def _write(self, method: Callable[..., Any], request: Any, timeout: Optional[float]) -> Any:
        return self._or_closed(_calls.call, method, request, self._timeout if timeout is None else timeout, 0)

    def _or_closed(self, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """On a closed channel gRPC raises a plain ValueError."""
        try:
            return call(*arguments, **named)
        except ValueError as error:
            if self._closed and not isinstance(error, TunefarmError):
                raise _closed_error() from None
            raise

    def _pages(self, method: Callable[..., Any], request: Any, field: str, timeout: Optional[float]) -> Iterator[Any]:
        """All of a list; the deadline is for all pages together."""
        deadline = _calls.Deadline(self._timeout if timeout is None else timeout)
        while True:
            response = self._read(method, request, max(deadline.left(), 0.001))
            yield from getattr(response, field)
            if not response.next_page_token:
                return
            request.page_token = response.next_page_token


class _Batch:
    """The answers of several calls as one; equal bests of different calls stay apart."""

    def __init__(self) -> None:
        self._bests: List[model.BestConfig] = []
        self._configs: List[Mapping[str, model.Value]] = []
        self._indexes: List[int] = []
        self._medians_ns: List[float] = []
        self._matches: List[model.Match] = []
        self._distances: List[float] = []
        self._revision = 0

    def add(self, response: Any) -> None:
        # Only one of the two is filled.
        offset = len(self._bests) + len(self._configs)
        self._bests.extend(_wire.best_config(item) for item in response.bests)
        self._configs.extend(_wire.values_from(item.values) for item in response.configs)
        self._indexes.extend(index + offset if index >= 0 else -1 for index in response.best_indexes)
        self._medians_ns.extend(response.medians_ns)
        self._matches.extend(model.Match(match) for match in response.matches)
        self._distances.extend(response.distances)
        self._revision = response.catalog_revision

    def answer(self) -> model.BatchAnswer:
        return model.BatchAnswer(tuple(self._bests), tuple(self._indexes), tuple(self._matches),
                                 tuple(self._distances), self._revision)

    def configs(self) -> model.BatchConfigs:
        return model.BatchConfigs(tuple(self._configs), tuple(self._indexes), tuple(self._medians_ns),
                                  tuple(self._matches), tuple(self._distances), self._revision)


def _with_data(describe: Callable[[], Tuple[str, Any]], send: Callable[[str, Any], Any]) -> Any:
    """What `send` answers to the (name, definition) of `describe`, which uploads. Data that the daemon has dropped in
    between, since no kernel named them yet, are uploaded once more."""
    name, definition = describe()
    try:
        return send(name, definition)
    except FailedPreconditionError as error:
        if error.reason != "DATA_FILE_NOT_FOUND" or definition is None:
            raise
    return send(*describe())


def _closed_error() -> AbortedError:
    return AbortedError("this Client is closed", code="CANCELLED")


def _say(display: Optional[ProgressDisplay], text: str) -> None:
    if display is not None:
        display.say(text)
    else:
        print(visible(text), file=sys.stderr, flush=True)


def tune_job(kernel: KernelLike, *, server: Optional[str] = None, **arguments: Any) -> model.Job:
    """Client.tune on a connection of its own: tune_job("matmul_host", dims={"M": 256}). `tunefarm.tune` is the same."""
    with Client(server) as client:
        return client.tune(kernel, **arguments)
