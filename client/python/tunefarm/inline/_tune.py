"""tune_kernel and run_kernel."""

from __future__ import annotations

import contextlib
import functools
import inspect
import tempfile
import warnings
from pathlib import Path
from typing import Any, Callable, ContextManager, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence

from tunefarm import _launch_abi, model
from tunefarm.client import Client
from tunefarm.errors import InvalidArgumentError
from tunefarm.inline import _arguments, _definition, _options, _results, _source
from tunefarm.inline._launching import Program
from tunefarm.inline._source import CUDA, HOST, Source
from tunefarm.inline._space import Space

_UNVERIFIED = "The caller's own function verifies the outputs of the finalists."


def tune_kernel(kernel_name: str, kernel_source: Any, problem_size: Any, arguments: Sequence[Any],
                tune_params: Mapping[str, Sequence[Any]], grid_div_x: Any = None, grid_div_y: Any = None,
                grid_div_z: Any = None, restrictions: Any = None, answer: Optional[Sequence[Any]] = None,
                atol: float = 1e-6, verify: Optional[Callable[..., Any]] = None, verbose: bool = False,
                lang: Optional[str] = None, device: int = 0, platform: int = 0, smem_args: Any = None,
                cmem_args: Optional[Mapping[str, Any]] = None, texmem_args: Any = None, compiler: Optional[str] = None,
                compiler_options: Optional[Sequence[str]] = None, defines: Optional[Mapping[str, Any]] = None,
                log: Any = None, iterations: int = 7, block_size_names: Optional[Sequence[str]] = None,
                quiet: bool = False, strategy: Optional[str] = None, strategy_options: Optional[Mapping[str, Any]] = None,
                cache: Any = None, metrics: Optional[Mapping[str, Any]] = None, simulation_mode: Any = None,
                parallel: Any = None, observers: Any = None, objective: Any = None, objective_higher_is_better: Any = None,
                objectives: Any = None, seed: Optional[int] = None, *, client: Optional[Client] = None,
                measure: Optional[Mapping[str, Any]] = None) -> _results.Tuning:
    """Tunes a kernel: (results, env). Each result is a dict of the parameters, "time" (the median of a launch in ms) and
    the metrics. `results.best` is the best one and can be launched (false: no config was right); `results.failed` says what
    became of other configs.

    kernel_source: CUDA C++ or C++ as a string, or a file's name. A C++ function for the CPU (lang="C", or no __global__ in
    the source) does the whole work in one call; what it returns is not looked at, because the daemon takes its time.
    problem_size, grid_div_*: numbers, strings, functions of a dict of the parameters, and lists of them. restrictions:
    strings, or functions, which are called in this process: at most 1,000,000 times, and become rules of the daemon.
    answer: a list with what the outputs must be, None for other arguments. Without it and without verify, the outputs must
    be those of the first config that keeps the restrictions, within 1e-3 for float32: see
    `results.verified_against_first_config`. verify: a function of (answer, outputs, atol) that is called in this process
    with what the finalists computed here, so that for CUDA it needs a GPU. Results then say which are "verified", and the
    best is one of them.
    iterations: samples of each config. strategy_options: max_fevals, time_limit (seconds), fraction (random_sample),
    popsize. cache: see the warning that it gives. metrics: functions of a result, or strings.
    defines, compiler_options, block_size_names, smem_args, cmem_args, objective, objective_higher_is_better, seed, quiet,
    verbose: as in Kernel Tuner. The others must have their defaults.
    client: a connection to a daemon, which stays open until `best` was launched once; by default one that Client() makes
    for each use. Programs that are started for launches find their credentials in the environment only.
    measure: as Client.submit takes it.

    InvalidArgumentError names the argument that is not supported or wrong.
    """
    _options.refuse({"texmem_args": texmem_args, "simulation_mode": simulation_mode, "observers": observers, "log": log,
                     "platform": platform, "parallel": parallel})
    if verify is not None and not callable(verify):
        raise InvalidArgumentError("verify is a function of (answer, outputs, atol)")
    space = Space(tune_params, restrictions)
    _options.check_parameters(space.domains)
    search = _options.search(strategy, strategy_options, space)
    goal = _options.objective(objective, objective_higher_is_better, objectives, metrics, search.strategy)
    computed = _options.metrics(metrics, space.domains)
    _options.check_metrics(computed, {name: values[0] for name, values in space.domains.items()})
    knobs = _options.measure(iterations, cache, measure)
    made = _prepared(kernel_name, kernel_source, lang, problem_size, (grid_div_x, grid_div_y, grid_div_z), arguments,
                     answer, verify, space, block_size_names, smem_args, cmem_args, compiler)
    connect = connections(client)
    with connect() as connection:
        selector = device_selector(connection, made.source.language, device)
        kernel = made.definition(connection, defines, compiler_options, atol, _UNVERIFIED if verify is not None else "", quiet)
        program = Program(kernel, made.source.language, made.arguments, made.constants, connect, selector, device)
        if verify is not None:
            _launch_abi.library()  # Without it nothing could be verified, and the search would be in vain.
        job = run(connection, program, progress=not quiet, device=selector, strategy=search.strategy,
                   strategy_options=search.options, seed=seed or 0, max_trials=search.max_trials,
                   max_seconds=search.max_seconds, measure=knobs, no_memory=cache is None, retry_poisoned=cache is None,
                   promote_given=True, label="tunefarm.tune_kernel")
        results = _results.collect(connection.results(job).to_list(), list(space.domains), computed)
        names = {item.uuid: item.device_class.display_name for item in connection.devices()}
        version = connection.info().version
    candidates: List[Dict[str, Any]] = results
    if verify is not None:
        candidates = _verified(results, job, program, list(space.domains), verify, answer, atol)
    results.verified_against_first_config = made.compares_with_first and verify is None
    results.warn_of_differences("give a function as verify")
    ranked = _results.by_objective(candidates, goal)
    if ranked:
        results.best = _results.Best(ranked[0], program, list(space.domains))
    else:
        results.best = _results.NoBest("no finalist passed verify" if results else results.no_config_text())
    env: Dict[str, Any] = {
        "device_name": job.studies[0].device_class_name if job.studies else ", ".join(sorted(set(names.values()))),
        "tunefarm_version": version, "job": job.name, "kernel": job.kernel, "iterations": knobs["min_samples"],
        "compiler_options": list(compiler_options or []),
        "verified_against_first_config": results.verified_against_first_config,
        "best_config": dict(ranked[0]) if ranked else None}
    if verbose:
        for failure in results.failed:
            print(f"skipped {_text(failure, list(space.domains))}: {failure['outcome']}: {failure['message']}")
    if not quiet:
        _print_best(results, goal, list(space.domains), [name for name, _ in computed])
    return _results.Tuning(results, env)


def run_kernel(kernel_name: str, kernel_source: Any, problem_size: Any, arguments: Sequence[Any], params: Mapping[str, Any],
               grid_div_x: Any = None, grid_div_y: Any = None, grid_div_z: Any = None, lang: Optional[str] = None,
               device: int = 0, platform: int = 0, smem_args: Any = None, cmem_args: Optional[Mapping[str, Any]] = None,
               texmem_args: Any = None, compiler: Optional[str] = None, compiler_options: Optional[Sequence[str]] = None,
               defines: Optional[Mapping[str, Any]] = None, block_size_names: Optional[Sequence[str]] = None,
               quiet: bool = False, log: Any = None, *, client: Optional[Client] = None) -> List[Any]:
    """Runs one config once, and returns all arguments as they are then; the given arrays are not changed. The daemon
    compiles it and runs it once by itself, isolated; then it runs in this process, which needs a GPU for kernels in CUDA.
    Arguments are those of tune_kernel, `params` being one value for each parameter."""
    _options.refuse({"texmem_args": texmem_args, "log": log, "platform": platform})
    if not isinstance(params, Mapping):
        raise InvalidArgumentError("params is a dict with one value for each parameter")
    space = Space({name: [value] for name, value in params.items()}, None)
    made = _prepared(kernel_name, kernel_source, lang, problem_size, (grid_div_x, grid_div_y, grid_div_z), arguments, None,
                     None, space, block_size_names, smem_args, cmem_args, compiler)
    connect = connections(client)
    with connect() as connection:
        selector = device_selector(connection, made.source.language, device)
        kernel = made.definition(connection, defines, compiler_options, 0.0, "It is run, not tuned.", quiet)
    program = Program(kernel, made.source.language, made.arguments, made.constants, connect, selector, device)
    return program.outputs({name: values[0] for name, values in space.domains.items()})


class _Prepared(NamedTuple):
    """All that a definition is made of."""

    kernel_name: str
    source: Source
    arguments: List[_arguments.Argument]
    constants: List[_arguments.Argument]
    space: Space
    launch: _definition.Launch

    @property
    def compares_with_first(self) -> bool:
        return all(argument.expected is None for argument in self.arguments)

    def definition(self, client: Client, defines: Optional[Mapping[str, Any]],
                   compiler_options: Optional[Sequence[str]], atol: float, unverified_reason: str, quiet: bool) -> Any:
        upload = functools.partial(client.upload_array, progress=not quiet)
        return _definition.build(self.kernel_name, self.source, self.arguments, self.constants, self.space, self.launch,
                                 upload, defines=defines, compiler_options=compiler_options, atol=atol,
                                 unverified_reason=unverified_reason)


def _prepared(kernel_name: str, kernel_source: Any, lang: Optional[str], problem_size: Any, grid_div: Sequence[Any],
              arguments: Any, answer: Any, verify: Any, space: Space, block_size_names: Any, smem_args: Any, cmem_args: Any,
              compiler: Optional[str]) -> _Prepared:
    source = _source.read(kernel_name, kernel_source, lang, len(arguments) if isinstance(arguments, (list, tuple)) else None)
    if compiler not in ((None, "nvcc") if source.language == CUDA else (None, "g++", "gcc")):
        raise InvalidArgumentError(f"compiler={compiler!r} is not supported: the daemon's configuration says which compiler "
                                   "it uses")
    if smem_args and source.language != CUDA:
        raise InvalidArgumentError("smem_args is shared memory, which C++ for the CPU does not have")
    taken = _arguments.read(arguments, answer, verify, source)
    launch = _definition.Launch(problem_size, grid_div, block_size_names, smem_args, space, source.language)
    return _Prepared(kernel_name, source, taken, _arguments.constants(cmem_args, source, taken), space, launch)


def connections(client: Optional[Client]) -> Callable[[], ContextManager[Client]]:
    """The caller's connection, or a new one each time."""
    @contextlib.contextmanager
    def connect() -> Iterator[Client]:
        if client is not None:
            yield client
        else:
            with Client() as made:
                yield made

    return connect


def device_selector(client: Client, language: str, number: Any) -> str:
    """What a job's device_selector is; `device` does not matter for the CPU."""
    if language == HOST or number == 0:
        return ""
    gpus = [device for device in client.devices() if device.device_class.kind is model.DeviceKind.CUDA]
    if not isinstance(number, int) or not 0 <= number < len(gpus):
        raise InvalidArgumentError(f"device={number!r}: the daemon has {len(gpus)} GPUs")
    return sorted(gpus, key=lambda device: device.ordinal)[number].uuid


def run(client: Client, program: Program, **options: Any) -> model.Job:
    """Client.tune of the program's kernel."""
    with tempfile.TemporaryDirectory(prefix="tunefarm-") as folder:
        return program.tune(client, _definition.write(program.kernel, Path(folder)), **options)


def _verified(results: _results.Results, job: model.Job, program: Program, names: Sequence[str],
              verify: Callable[..., Any], answer: Optional[Sequence[Any]], atol: float) -> List[Dict[str, Any]]:
    """The finalists whose outputs pass; those that do not become failures. All results say which they are."""
    takes_atol = _takes_atol(verify)
    with program.connect() as client:
        finalists = {tuple(trial.config.get(name) for name in names)
                     for trial in client.results(job, purpose=model.TrialPurpose.FINALIST)}
    passed = []
    for result in list(results):
        config = {name: result[name] for name in names}
        result["verified"] = False
        if tuple(config.values()) not in finalists:
            continue
        outputs = program.outputs(config)
        if answer is not None:
            outputs = [None if wanted is None else output for wanted, output in zip(answer, outputs)]
        if verify(answer, outputs, atol=atol) if takes_atol else verify(answer, outputs):
            result["verified"] = True
            passed.append(result)
        else:
            results[:] = [item for item in results if item is not result]
            results.failed.append({**config, "outcome": "WRONG_RESULT",
                                   "message": "verify says that the outputs are wrong"})
    if results and not passed:
        warnings.warn("no finalist passed verify, so that there is no best config; no other config was verified",
                      stacklevel=3)
    return passed


def _takes_atol(verify: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(verify).parameters
    except (TypeError, ValueError):
        return False
    return "atol" in parameters or any(item.kind is item.VAR_KEYWORD for item in parameters.values())


def _text(result: Mapping[str, Any], names: Sequence[str]) -> str:
    return ", ".join(f"{name}={result[name]}" for name in names)


def _print_best(results: _results.Results, goal: _options.Objective, names: Sequence[str],
                metrics: Sequence[str]) -> None:
    if not results.best:
        print("no finalist passed verify" if results else results.no_config_text())
        return
    shown = [name for name in ("time", *metrics) if name != goal.name]
    more = "".join(f", {name}={results.best[name]:.6g}" for name in shown if isinstance(results.best[name], (int, float)))
    print(f"best by {goal.name}: {_text(results.best, names)}: {goal.name}={results.best[goal.name]:.6g}{more}")
