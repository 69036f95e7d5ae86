"""`hydra/launcher=ray_cluster`: the jobs of a sweep as tasks of Ray, on a running cluster or on one that is started here.

The published Ray launcher of Hydra is made for Ray 1 and 2.0; this one needs nothing of Ray but `init`, `remote`, `wait`
and `cancel`. A node must see the sweep's folder under the same path, as with Slurm.
"""

import logging
import os
import re
import socket
from collections.abc import Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hydra.core.utils import JobReturn
    from hydra.types import HydraContext, TaskFunction
    from omegaconf import DictConfig

INSTALL = "pip install 'twin-serving[ray]'"
TOKEN = "one that asks for tokens, as Ray 2.60 does, wants RAY_AUTH_MODE=token in the environment"
KNOCK_S = 5.0
POLL_S = 1.0  # how long Ray is waited for before a signal is looked at


class RayLauncher:
    """A launcher of Hydra's; the options are those of conf/hydra/launcher/ray_cluster.yaml.

    Raises ValueError for options that cannot be, without Ray, and for a cluster that does not answer.
    """

    def __init__(
        self,
        address: str | None = None,
        num_cpus: int | None = None,
        cpus_per_job: float = 1,
        retries: int = 1,
        runtime_env: Mapping[str, Any] | None = None,
    ) -> None:
        _check("cpus_per_job", cpus_per_job, _is_number(cpus_per_job) and 0 < cpus_per_job < inf, "a number above 0")
        _check("retries", retries, _is_whole(retries) and retries >= 0, "a whole number, 0 or more")
        _check("num_cpus", num_cpus, num_cpus is None or (_is_whole(num_cpus) and num_cpus > 0), "a whole number of cores")
        _check("address", address, address is None or isinstance(address, str), "auto, HOST:PORT or ray://HOST:PORT")
        _check("runtime_env", runtime_env, runtime_env is None or isinstance(runtime_env, Mapping), "a mapping")
        _ray()  # before anything is begun
        self.address, self.num_cpus, self.cpus_per_job = address, num_cpus, cpus_per_job
        self.retries, self.runtime_env = retries, dict(runtime_env or {}) or None

    def setup(self, *, hydra_context: "HydraContext", task_function: "TaskFunction", config: "DictConfig") -> None:
        """As every launcher of Hydra's."""
        self.hydra_context, self.task_function, self.config = hydra_context, task_function, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> "list[JobReturn]":
        """Runs all jobs; one whose worker died, more often than `retries`, comes back as failed."""
        from hydra.core.singleton import Singleton

        ray = _ray()
        started = not ray.is_initialized()
        if started:
            self._join(ray)
        try:
            self._check_size(ray)
            task = ray.remote(num_cpus=self.cpus_per_job, max_retries=self.retries)(run_one)
            shared = ray.put((self.hydra_context, self.config, self.task_function, Singleton.get_state()))
            numbers = {
                task.remote(shared, list(overrides), initial_job_idx + place): place
                for place, overrides in enumerate(job_overrides)
            }
            return self._gathered(ray, numbers)
        finally:
            if started:
                ray.shutdown()

    def _join(self, ray: Any) -> None:
        address = self.address or os.environ.get("RAY_ADDRESS") or None
        here: dict[str, Any] = {} if address else {"include_dashboard": False}
        if self.num_cpus is not None:
            if address:
                raise ValueError(
                    f"num_cpus={self.num_cpus} is for a cluster that is started here, without address={address}"
                )
            here["num_cpus"] = self.num_cpus
        if address:
            _knock(address)
        quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
        try:
            ray.init(address=address, runtime_env=self.runtime_env, **here, **quiet)
        except (ConnectionError, RuntimeError) as error:
            raise ValueError(f"address={address}: no Ray cluster answers ({error}; {TOKEN})") from error

    def _check_size(self, ray: Any) -> None:
        """No node that could hold a job would mean to wait for ever."""
        most = max((node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]), default=0)
        if self.cpus_per_job > most:
            raise ValueError(f"cpus_per_job={self.cpus_per_job}: the largest node of the cluster has {most:g} cores")

    @staticmethod
    def _gathered(ray: Any, numbers: dict[Any, int]) -> "list[JobReturn]":
        """What came of each job, in their order; what still runs when this is interrupted is cancelled."""
        from hydra.core.utils import JobReturn, JobStatus

        open_, results = dict(numbers), {}
        try:
            while open_:
                ready, _ = ray.wait(list(open_), num_returns=1, timeout=POLL_S)
                for reference in ready:
                    place = open_.pop(reference)
                    try:
                        results[place] = ray.get(reference)
                    except ray.exceptions.RayError as error:
                        results[place] = JobReturn(status=JobStatus.FAILED, _return_value=error)
        finally:
            for reference in open_:
                ray.cancel(reference, force=True)
        return [results[place] for place in sorted(results)]


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        why = "is not installed" if error.name == "ray" else f"cannot be imported ({error})"
        raise ValueError(f"Ray {why}; {INSTALL}") from error
    return ray


def _check(name: str, value: Any, right: bool, wanted: str) -> None:
    if not right:
        raise ValueError(f"{name}={value}: must be {wanted}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _knock(address: str) -> None:
    """Raises ValueError where nobody listens: Ray itself tries for minutes to reach a cluster that is not there."""
    match = re.fullmatch(r"(?:ray://)?(?P<host>[\w.-]+):(?P<port>\d+)", address)
    if match is None:
        return
    try:
        socket.create_connection((match["host"], int(match["port"])), KNOCK_S).close()
    except (OSError, OverflowError) as error:
        raise ValueError(f"address={address}: no Ray cluster answers there ({error})") from error


def run_one(shared: "tuple[HydraContext, DictConfig, TaskFunction, Any]", overrides: list[str], number: int) -> "JobReturn":
    """In a worker: the job as every launcher of Hydra's runs it."""
    from hydra.core.singleton import Singleton
    from hydra.core.utils import run_job, setup_globals
    from omegaconf import open_dict

    context, master, task_function, state = shared
    Singleton.set_state(state)
    setup_globals()
    config = context.config_loader.load_sweep_config(master, overrides)
    with open_dict(config):
        config.hydra.job.id, config.hydra.job.num = str(number), number
    return run_job(
        hydra_context=context,
        config=config,
        task_function=task_function,
        job_dir_key="hydra.sweep.dir",
        job_subdir_key="hydra.sweep.subdir",
    )
