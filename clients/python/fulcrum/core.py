"""Rounds of active learning in this process: no server, no files.

    import fulcrum.core
    chosen = fulcrum.core.select(X, y, batch=20)        # y: the label of each row, nan or None if it has none
    chosen.indices                                      # the rows to label next, best first

`select` runs the code of `fulcrum select` with the same defaults, and selects the same rows. Arrays are float64 or
float32 (others are converted) or scipy.sparse matrices. With `normalize="none"` float64 arrays and CSR matrices are read
where they are; otherwise one normalised copy is made. The GIL is released, and Ctrl-C ends a computation.
"""

import dataclasses
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from .arrow_stream import as_numbers

try:
    from . import _core
except ImportError as _error:  # A client without the extension module is complete in all other respects.
    raise ImportError(
        f"fulcrum.core is not available: {_error}. It is part of the wheel that ./dev package builds; a source "
        "package or a wheel of another Python does not have it") from _error

__all__ = ["Selection", "leverage_scores", "select", "strategies"]

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@dataclasses.dataclass(frozen=True)
class Selection:
    """A batch, and how it was selected."""

    #: The selected rows of X, best first.
    indices: np.ndarray
    #: What the strategy ranked each of them by.
    gains: np.ndarray
    #: The leverage of each within its class; 0 if the strategy uses none.
    leverage: np.ndarray
    #: The predicted class of each; None if nothing was predicted.
    classes: List[Any]
    #: The leverage of every row of X, unscaled; empty if the strategy uses none.
    scores: np.ndarray
    #: The predicted class of every row of X (a labeled row has its label); empty if nothing was predicted.
    predicted: np.ndarray
    #: Per class, or for the pool: rows m, labeled, rank k, tau_reached, engine and the reason for it.
    reports: List[Dict[str, Any]]
    #: Settings that were chosen by cross-validation on the labels; None if they were given.
    tuning: Optional[Dict[str, Any]]
    #: Seconds per stage; stages of different classes overlap.
    seconds: Dict[str, float]

    def __len__(self) -> int:
        return len(self.indices)

    def __iter__(self) -> Any:
        return iter(self.indices)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(self.indices, dtype=dtype)


def strategies() -> Dict[str, str]:
    """Returns the names of the strategies, each with what it is and when to use it."""
    return {name: f"{summary}; use it: {when}" for name, summary, when in _core.strategies()}


def as_examples(X: Any) -> Any:
    """Returns X as the extension module reads it, without a copy if the layout allows it."""
    if hasattr(X, "tocsr"):
        rows = X.tocsr()
        if rows.dtype.kind not in "fiub":
            raise ValueError(f"X must have numbers, not values of the type {rows.dtype}")
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        if rows.shape[1] > np.iinfo(np.int32).max:
            raise ValueError(f"X has {rows.shape[1]} columns; there may be at most {np.iinfo(np.int32).max}")
        return (np.asarray(rows.indptr, np.int64), np.asarray(rows.indices, np.int32),
                np.asarray(rows.data, np.float64), int(rows.shape[1]))
    names = list(getattr(X, "columns", ())) if hasattr(X, "to_numpy") else getattr(X, "column_names", None)
    if hasattr(X, "to_numpy"):
        X = X.to_numpy()
    rows = np.asarray(X)
    if rows.ndim != 2:
        raise ValueError(f"X must have two dimensions, rows and features, not the shape {rows.shape}")
    rows = as_numbers(X if isinstance(X, np.ma.MaskedArray) else rows, names)
    if rows.dtype not in (np.float64, np.float32) or not rows.dtype.isnative:
        rows = rows.astype(np.float64)
    if rows.shape[0] == 0 or rows.shape[1] == 0:
        raise ValueError(f"X has the shape {rows.shape}: there is nothing to select from")
    itemsize = rows.dtype.itemsize
    in_rows = rows.strides[1] == itemsize and rows.strides[0] >= itemsize * rows.shape[1] and (
        rows.strides[0] % itemsize == 0)
    return rows if in_rows and rows.flags.aligned else np.ascontiguousarray(rows)


def _is_missing(value: Any, missing: Any) -> bool:
    return value is None or value is missing or value == missing or value != value


def encode_labels(y: Any, *others: Any, missing_label: Any = np.nan) -> Tuple[List[np.ndarray], List[Any]]:
    """Returns labels, and others of the same kind, as numbers of classes (-1: none), and the classes in their order:
    numbers by value, also if they are written as text; text by its characters."""
    arrays: List[Tuple[np.ndarray, np.ndarray]] = []
    found: Dict[Any, Any] = {}
    for each in (y, *others):
        values = np.asarray(each)
        if values.ndim != 1:
            raise ValueError(f"labels must have one dimension, not the shape {values.shape}")
        if values.dtype.kind in "fiub":
            present = ~np.isnan(values) if values.dtype.kind == "f" else np.ones(len(values), bool)
            if not _is_missing(missing_label, None):
                present &= values != missing_label
            names = np.unique(values[present])
            found.update((name.item(), name) for name in names)
        else:
            present = np.array([not _is_missing(value, missing_label) for value in values.tolist()], bool)
            found.update((value, value) for value in values[present].tolist())
        arrays.append((values, present))
    try:
        classes = sorted(found, key=float)
        if len({float(name) for name in classes}) < len(classes):
            raise ValueError("two classes are the same number written in different ways")
    except (TypeError, ValueError):
        classes = sorted(found, key=lambda name: str(name).encode())
    number_of = {name: number for number, name in enumerate(classes)}
    encoded = []
    for values, present in arrays:
        numbers = np.full(len(values), -1, np.int32)
        numbers[present] = [number_of[value] for value in values[present].tolist()]
        encoded.append(numbers)
    return encoded, [found[name] for name in classes]


def _bytes(memory: Union[str, int]) -> int:
    if isinstance(memory, int):
        return memory
    text = memory.strip().upper()
    number = text.rstrip("KMGTIB")
    unit = text[len(number):].replace("IB", "").replace("B", "").strip()
    if unit not in _UNITS or not number.strip().replace(".", "", 1).isdigit():
        raise ValueError(f"memory is '{memory}'; it must be a number of bytes or a size such as '2GiB'")
    return int(float(number) * _UNITS[unit])


def _class_weights(weights: Union[str, Mapping[Any, float]], labels: np.ndarray, classes: List[Any]) -> List[float]:
    if isinstance(weights, str):
        if weights != "balanced":
            raise ValueError(f"class_weights is '{weights}'; it must be 'balanced' or a dict of factors per class")
        counts = np.bincount(labels[labels >= 0], minlength=len(classes))
        total = counts.sum()
        return [float(total / (len(classes) * count)) if count else 1.0 for count in counts]
    unknown = [name for name in weights if name not in classes]
    if unknown:
        raise ValueError(f"class_weights has the class {unknown[0]!r}; the classes are {classes}")
    return [float(weights.get(name, 1.0)) for name in classes]


def _probabilities(given: np.ndarray, columns: np.ndarray, rows: int, classes: int) -> np.ndarray:
    """Returns probabilities with the columns of all classes, in their order."""
    if given.shape != (rows, len(columns)) or len(set(columns.tolist())) < len(columns):
        raise ValueError(f"predictions has the shape {given.shape}; there are {rows} rows and {len(columns)} `classes`, "
                         "which must differ")
    bad = ~((given >= 0).all(axis=1) & (np.abs(given.sum(axis=1) - 1) <= 1e-3))
    if bad.any():
        raise ValueError(f"the probabilities of row {int(np.argmax(bad))} are not from 0 to 1, or do not sum to 1")
    all_of_them = np.zeros((rows, classes), np.float32)
    all_of_them[:, columns] = given
    return all_of_them


def make_settings(given: Mapping[str, Any], labels: np.ndarray, classes: List[Any]) -> Dict[str, Any]:
    """Returns the settings for the extension module: those that are not None, and what follows from them."""
    settings = {name: value for name, value in given.items() if value is not None}
    if "class_weights" in settings:
        settings["class_weights"] = _class_weights(settings["class_weights"], labels, classes)
    if "memory" in settings:
        settings["memory"] = _bytes(settings["memory"])
    classifier_given = any(name in settings for name in (
        "normalize", "svm_kernel", "svm_sigma", "svm_poly_c", "svm_degree", "svm_c", "class_weights", "classifier"))
    tune = settings.pop("tune", None)
    if tune not in (None, "auto", "off"):
        raise ValueError(f"tune is '{tune}'; it must be 'auto' or 'off'")
    if tune == "auto" and classifier_given:
        raise ValueError("tune='auto' chooses the settings of the classifier; leave normalize, svm_... and "
                         "class_weights out")
    settings["tune"] = tune != "off" and not classifier_given
    settings["leverage_given"] = any(name in settings for name in (
        "kernel", "sigma", "poly_c", "degree", "normalize_kernel"))
    for name, value in settings.items():
        if name in ("batch", "threads") and int(value) < 1:
            raise ValueError(f"{name} is {value}; it must be 1 or more")
    return settings


def select(X: Any, y: Any, *, strategy: Optional[str] = None, batch: int = 10, alpha: Optional[float] = None,
           leverage_scale: Optional[str] = None, normalize: Optional[str] = None, kernel: Optional[str] = None,
           sigma: Optional[float] = None, poly_c: Optional[float] = None, degree: Optional[int] = None,
           normalize_kernel: Optional[bool] = None, tau: Optional[float] = None, engine: Optional[str] = None,
           landmarks: Optional[int] = None, refine: Optional[bool] = None, tune: Optional[str] = None,
           classifier: Optional[str] = None, svm_kernel: Optional[str] = None, svm_sigma: Optional[float] = None,
           svm_poly_c: Optional[float] = None, svm_degree: Optional[int] = None, svm_c: Optional[float] = None,
           class_weights: Union[None, str, Mapping[Any, float]] = None, predictions: Any = None,
           classes: Optional[Sequence[Any]] = None, candidates: Optional[Sequence[int]] = None,
           missing_label: Any = np.nan, seed: Optional[int] = None, threads: Optional[int] = None,
           memory: Union[None, str, int] = None) -> Selection:
    """Selects the rows of X to label next.

    `y` has the label of each row, and `missing_label` (also nan and None) for a row without one. Labels of at least two
    classes are needed by most strategies; before that the batch covers the pool. `strategies()` lists what `strategy`
    can be. `predictions` are those of your own model, which takes the place of Fulcrum's: the class of every row, or its
    probabilities, rows x classes, with `classes` naming the columns (`predict_proba(X)` and `classes_` of an estimator).
    `candidates` are the numbers of the rows that may be selected. The other arguments are those of `fulcrum select`, with
    the same defaults: `fulcrum select --help` describes them. An argument of the classifier (normalize, classifier,
    svm_..., class_weights) switches tuning off. ValueError if something is wrong, MemoryError if `memory` does not
    suffice.
    """
    examples = as_examples(X)
    given: Dict[str, Any] = dict(
        strategy=strategy, batch=batch, alpha=alpha, leverage_scale=leverage_scale, normalize=normalize, kernel=kernel,
        sigma=sigma, poly_c=poly_c, degree=degree, normalize_kernel=normalize_kernel, tau=tau, engine=engine,
        landmarks=landmarks, refine=refine, tune=tune, classifier=classifier, svm_kernel=svm_kernel,
        svm_sigma=svm_sigma, svm_poly_c=svm_poly_c, svm_degree=svm_degree, svm_c=svm_c, class_weights=class_weights,
        seed=seed, threads=threads, memory=memory)
    predicted: Optional[np.ndarray] = None
    probabilities: Optional[np.ndarray] = None
    if predictions is None:
        (labels,), names = encode_labels(y, missing_label=missing_label)
    elif np.ndim(predictions) == 2:
        if classes is None:
            raise ValueError("predictions has a column per class: name the columns with `classes`")
        (labels, columns), names = encode_labels(y, np.asarray(classes), missing_label=missing_label)
        probabilities = _probabilities(np.asarray(predictions, np.float64), columns, len(labels), len(names))
        predicted = probabilities.argmax(axis=1).astype(np.int32)
    else:
        (labels, predicted), names = encode_labels(y, predictions, missing_label=missing_label)
    if predicted is not None and len(predicted) == len(labels):
        predicted = np.where(labels >= 0, labels, predicted).astype(np.int32)
        if (predicted < 0).any():
            raise ValueError(f"row {int(np.argmax(predicted < 0))} has neither a label nor a prediction")
    settings = make_settings(given, labels, names)
    if predictions is not None:
        settings.update(tune=False, predictions_given=True)
    barred: List[int] = []
    if candidates is not None:
        allowed = np.zeros(len(labels), bool)
        allowed[np.asarray(candidates)] = True
        barred = np.flatnonzero((labels < 0) & ~allowed).tolist()
    found = _core.select(examples, labels, len(names), predicted, probabilities, barred, settings)
    named = np.array([*names, None], object)
    for report in found["reports"]:
        report["class"] = named[report["class"]]
    return Selection(indices=found["rows"], gains=found["gains"], leverage=found["leverage"],
                     classes=list(named[found["classes"]]), scores=found["scores"],
                     predicted=named[found["predicted"]], reports=found["reports"], tuning=found["tuning"],
                     seconds=found["seconds"])


def leverage_scores(X: Any, *, kernel: Optional[str] = None, tau: float = 0.5, engine: str = "auto",
                    sigma: Optional[float] = None, poly_c: Optional[float] = None, degree: Optional[int] = None,
                    normalize_kernel: Optional[bool] = None, normalize: Optional[str] = None,
                    landmarks: Optional[int] = None, refine: Optional[bool] = None, seed: Optional[int] = None,
                    threads: Optional[int] = None, memory: Union[None, str, int] = None) -> np.ndarray:
    """Returns the statistical leverage of every row of X: how much it contributes to the top of the kernel's spectrum.

    The scores lie in [0, 1] and sum to the rank k: the smallest number of eigenvalues that holds the share `tau` of the
    kernel's trace. `kernel` is "rbf", "linear", "poly" or "cosine"; without one it is an rbf kernel as wide as the median
    distance of robustly scaled features. If a kernel is given, X is used as it is unless `normalize` says otherwise.
    `engine` is "auto", "dense", "krylov", "tiled" or "landmark".
    """
    examples = as_examples(X)
    if normalize is None and any(each is not None for each in (kernel, sigma, poly_c, degree)):
        normalize = "none"
    rows = len(examples[0]) - 1 if isinstance(examples, tuple) else len(examples)
    labels = np.full(rows, -1, np.int32)
    settings = make_settings(dict(
        strategy="lev-on-all", batch=1, kernel=kernel, sigma=sigma, poly_c=poly_c, degree=degree, tau=tau, engine=engine,
        normalize_kernel=normalize_kernel, normalize=normalize, landmarks=landmarks, refine=refine, seed=seed,
        threads=threads, memory=memory), labels, [])
    scores: np.ndarray = _core.select(examples, labels, 0, None, None, [], settings)["scores"]
    return scores
