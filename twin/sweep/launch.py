"""Runs the units of a sweep by one of Hydra's launchers, and sees to it that none takes the others with it."""

from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twin.sweep import ledger
from twin.sweep.jobs import Unit
from twin.sweep.loader import WordsLoader, escaped, handed

if TYPE_CHECKING:
    from omegaconf import DictConfig

RAY = "twin.sweep.ray_launcher.RayLauncher"
SLURM = "hydra_plugins.hydra_submitit_launcher.submitit_launcher.SlurmLauncher"
DIED = "its process died (killed, perhaps for lack of memory)"
SILENT = "it ended without a result"


class LostError(RuntimeError):
    """A launcher gave up while jobs that it has begun may still run elsewhere."""


Launch = Callable[[Sequence[Unit]], bool]  # False when the workers broke


def launcher(config: "DictConfig", folder: Path, task: Callable[[Any], Any]) -> Launch:
    """What launches units as `config` (Hydra's, composed for a multirun) says. Raises ValueError.
    The launch itself raises ValueError where nothing can be begun, LostError.

    `task` is called in the worker, with Hydra's configuration of the job; it must be importable by name.
    """
    from hydra._internal.callbacks import Callbacks
    from hydra.core.plugins import Plugins
    from hydra.types import HydraContext
    from omegaconf import OmegaConf, open_dict

    with open_dict(config):
        config.hydra.sweep.dir = escaped(str(folder.resolve()))
    context = HydraContext(config_loader=WordsLoader(), callbacks=Callbacks())  # type: ignore[arg-type]
    if config.hydra.launcher["_target_"] == RAY:
        from twin.sweep.ray_launcher import RayLauncher

        options = OmegaConf.to_container(config.hydra.launcher)
        assert isinstance(options, dict)
        made: Any = RayLauncher(**{str(key): value for key, value in options.items() if key != "_target_"})
        made.setup(hydra_context=context, task_function=task, config=config)
    else:
        if config.hydra.launcher["_target_"] == SLURM:
            from twin.sweep.slurm_queue import watch_without_accounting

            watch_without_accounting()
        made = Plugins.instance().instantiate_launcher(hydra_context=context, task_function=task, config=config)

    def launch(units: Sequence[Unit]) -> bool:
        try:
            results = made.launch([handed(unit) for unit in units], initial_job_idx=0)
        except BrokenExecutor:
            return False
        except RuntimeError as error:  # submitit's: nothing could be submitted, or a job left no result
            words = str(error).splitlines()[0]
            if all(unit.status() == ledger.WAITING for unit in units):
                raise ValueError(words) from error
            raise LostError(f"a job left no result ({words})") from error
        for unit, result in zip(units, results, strict=True):
            raised = result._return_value  # its property prints and raises
            if isinstance(raised, Exception) and unit.status() not in ledger.ENDED:
                kind = type(raised).__name__
                died = "Died" in kind or "Crashed" in kind  # Ray's WorkerCrashedError, NodeDiedError, ...
                ledger.mark(unit.folder, ledger.FAILED, DIED if died else f"{kind}: {raised}".splitlines()[0])
        return True

    return launch


def carry_through(launch: Launch, units: Sequence[Unit]) -> None:
    """Launches until every unit has ended: finished, or failed with its reason.

    When the workers break (one was killed, and the pool with it), those units that had begun are run again each by itself,
    so that the one to blame is found, and those that had not are run together.
    """
    batches = [list(units)]
    while batches:
        batch = batches.pop(0)
        if not batch:
            continue
        well = launch(batch)
        unended = [unit for unit in batch if unit.status() not in ledger.ENDED]
        begun = [unit for unit in unended if unit.status() == ledger.RUNNING]
        if well or len(batch) == 1 or not begun:
            for unit in unended:
                ledger.mark(unit.folder, ledger.FAILED, SILENT if well else DIED)
        else:
            batches = [*([unit] for unit in begun), [unit for unit in unended if unit not in begun], *batches]
