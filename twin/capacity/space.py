"""Which settings are tried in a search over several options: all of them, or those that Optuna proposes."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any, Protocol

Setting = dict[str, str]  # option: value, as typed


class Axis(Protocol):
    """An option and what it may be: one of `values`, or a number `between` two."""

    @property
    def key(self) -> str: ...
    @property
    def values(self) -> tuple[str, ...]: ...
    @property
    def between(self) -> tuple[float, float] | None: ...


class SpaceError(ValueError):
    """The space cannot be searched like this; one line."""


class Grid:
    """Every combination, the last axis fastest."""

    most = 10_000  # settings

    def __init__(self, axes: Sequence[Axis]) -> None:
        self.axes = axes
        for axis in axes:
            if axis.between is not None:
                raise SpaceError(f"{axis.key}: an interval has no end of values; give capacity.trials=N, or a list")
        if len(self) > self.most:
            raise SpaceError(f"{len(self):,} settings: there may be at most {self.most:,}; give capacity.trials=N")

    def __len__(self) -> int:
        return prod(len(axis.values) for axis in self.axes)

    def settings(self) -> Iterator[Setting]:
        for values in product(*(axis.values for axis in self.axes)):
            yield dict(zip((axis.key for axis in self.axes), values, strict=True))

    def told(self, setting: Setting, rate: float) -> None:
        """The capacity that a setting has; a grid needs no answer."""


class OptunaSpace:
    """So many trials of Optuna's tree-structured Parzen estimator (Bergstra et al., NeurIPS 2011), whose seed is given.

    Numbers are searched in their order, words as categories. A setting that comes again is answered from memory.
    """

    def __init__(self, axes: Sequence[Axis], trials: int, seed: int) -> None:
        try:
            import optuna
        except ImportError as error:
            raise SpaceError("capacity.trials needs Optuna: pip install 'twin-serving[optuna]'") from error
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.axes, self.trials = axes, trials
        self._study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
        self._rates: dict[tuple[str, ...], float] = {}

    def __len__(self) -> int:
        return self.trials

    def settings(self) -> Iterator[Setting]:
        """Distinct ones, so perhaps fewer than trials: what is proposed again is answered at once."""
        for _ in range(self.trials):
            trial = self._study.ask()
            setting = {axis.key: _proposed(trial, axis) for axis in self.axes}
            known = tuple(setting.values())
            if known not in self._rates:
                yield setting
            self._study.tell(trial, self._rates[known])

    def told(self, setting: Setting, rate: float) -> None:
        self._rates[tuple(setting.values())] = rate


def _proposed(trial: Any, axis: Axis) -> str:
    if axis.between is not None:
        low, high = axis.between
        if type(low) is int and type(high) is int:
            return str(trial.suggest_int(axis.key, low, high))
        return repr(float(trial.suggest_float(axis.key, low, high)))
    numbers = _numbers(axis.values)
    if numbers is None:
        return str(trial.suggest_categorical(axis.key, list(axis.values)))
    ordered = sorted(numbers, key=lambda text: numbers[text])
    return ordered[trial.suggest_int(axis.key, 0, len(ordered) - 1)]


def _numbers(values: Sequence[str]) -> Mapping[str, float] | None:
    try:
        return {text: float(text) for text in values}
    except ValueError:
        return None


def space(axes: Sequence[Axis], trials: int | None, seed: int) -> "Grid | OptunaSpace":
    """The settings of these axes; without axes the one that changes nothing. Raises SpaceError."""
    if trials is not None and not axes:
        raise SpaceError("capacity.trials: there is nothing to choose from; give -m and lists or intervals")
    return Grid(axes) if trials is None else OptunaSpace(axes, trials, seed)
