"""Fulcrum inside the loops of other packages: a classifier for scikit-learn, a query strategy for scikit-activeml."""

from typing import Any, Dict, Optional, Tuple, Union

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from . import _core, core

try:  # scikit-learn 1.6 and later
    from sklearn.utils.validation import validate_data
except ImportError:
    def validate_data(_estimator: Any, /, *data: Any, **options: Any) -> Any:  # type: ignore[misc,unused-ignore]
        """The method that the function replaced."""
        return _estimator._validate_data(*data, **options)

__all__ = ["FulcrumClassifier", "FulcrumQueryStrategy"]


class FulcrumClassifier(ClassifierMixin, BaseEstimator):
    """The classifier of a campaign: logistic regression or an SVM with a kernel.

    By default (`tune="auto"`) normalisation, kernel, width and penalty are chosen by cross-validation on the labels. Any
    other argument switches that off; they are those of `fulcrum select`. `choice_` has the settings in use.
    """

    def __init__(self, tune: Optional[str] = None, normalize: Optional[str] = None, classifier: Optional[str] = None,
                 svm_kernel: Optional[str] = None, svm_sigma: Optional[float] = None,
                 svm_poly_c: Optional[float] = None, svm_degree: Optional[int] = None, svm_c: Optional[float] = None,
                 class_weights: Any = None, seed: int = 1, threads: Optional[int] = None):
        self.tune = tune
        self.normalize = normalize
        self.classifier = classifier
        self.svm_kernel = svm_kernel
        self.svm_sigma = svm_sigma
        self.svm_poly_c = svm_poly_c
        self.svm_degree = svm_degree
        self.svm_c = svm_c
        self.class_weights = class_weights
        self.seed = seed
        self.threads = threads

    def fit(self, X: Any, y: Any) -> "FulcrumClassifier":
        """Trains on all rows. ValueError unless there are at least two classes."""
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32])
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"the labels have one class only ({self.classes_[0]!r}); at least two classes are needed")
        settings = core.make_settings(dict(
            tune=self.tune, normalize=self.normalize, classifier=self.classifier, svm_kernel=self.svm_kernel,
            svm_sigma=self.svm_sigma, svm_poly_c=self.svm_poly_c, svm_degree=self.svm_degree, svm_c=self.svm_c,
            class_weights=self.class_weights, seed=self.seed, threads=self.threads),
            labels.astype(np.int32), list(self.classes_))
        self._train(X, labels.astype(np.int32), settings)
        return self

    def _train(self, X: Any, labels: np.ndarray, settings: Dict[str, Any]) -> None:
        self._predictor = _core.train(core.as_examples(X), labels, len(self.classes_), settings)
        self.choice_ = self._predictor.choice
        # What a copy of this object in another process is trained from.
        kept: Dict[str, Any] = {name: settings[name] for name in ("class_weights", "seed", "threads") if name in settings}
        kept.update(self.choice_, tune=False)
        self._trained_on = (X, labels, kept)

    def __getstate__(self) -> Dict[str, Any]:
        state: Any = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_predictor"}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        super().__setstate__(state)
        if hasattr(self, "_trained_on"):
            # The same rows, settings and seed make the same model.
            X, labels, settings = self._trained_on
            self._predictor = _core.train(core.as_examples(X), labels, len(self.classes_), settings)

    def _outputs(self, X: Any) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
        check_is_fitted(self, "classes_")
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        outputs: Tuple[np.ndarray, np.ndarray, np.ndarray] = self._predictor.predict(
            core.as_examples(X), self.threads or 0)
        return outputs

    def predict(self, X: Any) -> np.ndarray:
        """Returns the class of each row."""
        predicted: np.ndarray = self._outputs(X)[0]
        return np.asarray(self.classes_[predicted])

    def predict_proba(self, X: Any) -> np.ndarray:
        """Returns the probability of each class, rows x classes in the order of `classes_`."""
        return self._outputs(X)[2]

    def decision_function(self, X: Any) -> np.ndarray:
        """Returns the distance from the border for two classes, positive for `classes_[1]`; otherwise per class its
        number of pairwise decisions won, with the values of the decisions to order equal numbers."""
        classes, decisions, _ = self._outputs(X)
        if len(self.classes_) == 2:
            return -decisions[:, 0]
        votes = np.zeros((len(classes), len(self.classes_)))
        sums = np.zeros_like(votes)
        for column, (first, second) in enumerate(self._predictor.pairs):
            value = decisions[:, column]
            votes[:, first] += value > 0
            votes[:, second] += value <= 0
            sums[:, first] += value
            sums[:, second] -= value
        votes += sums / (3 * (np.abs(sums) + 1))
        # `predict` gives equal numbers of votes to the smaller class.
        rows = np.arange(len(classes))
        votes[rows, classes] = np.maximum(votes[rows, classes], votes.max(axis=1) + 1e-9)
        return votes

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class FulcrumQueryStrategy(BaseEstimator):
    """A query strategy for the loop of scikit-activeml: `query(X, y, clf, batch_size=)` returns rows of X.

    `strategy` is any of `fulcrum.core.strategies()`. With `use_clf=False` the round trains Fulcrum's own classifier, and
    `clf` is not used. With `use_clf=True` the probabilities that `clf` predicts are used instead (its classes, if it has no
    `predict_proba`); strategies that cannot use them refuse by name. Other arguments go to `fulcrum.core.select`.
    """

    def __init__(self, strategy: Optional[str] = None, use_clf: bool = False, missing_label: Any = np.nan,
                 random_state: Union[None, int, np.random.RandomState] = None, settings: Optional[Dict[str, Any]] = None):
        self.strategy = strategy
        self.use_clf = use_clf
        self.missing_label = missing_label
        self.random_state = random_state
        self.settings = settings

    def query(self, X: Any, y: Any, clf: Any = None, fit_clf: bool = True, candidates: Any = None, batch_size: int = 1,
              return_utilities: bool = False, **_: Any) -> Any:
        """Returns the numbers of the rows to label next: of X, or of `candidates` if these are rows of features.

        `y` has nan (or `missing_label`) for rows without a label. `candidates` are the numbers of rows of X that may be
        selected, or rows of features that are not in X. With `return_utilities` also an array of batch_size x rows: the
        value of the selected row in each step, nan for all others.
        """
        X = X if hasattr(X, "tocsr") else np.asarray(X)
        labels = np.asarray(y, dtype=object if np.asarray(y).dtype.kind not in "fiub" else None)
        first, allowed = 0, None
        if candidates is not None:
            candidates = np.asarray(candidates)
            allowed = candidates
            if candidates.ndim == 2:
                first = X.shape[0]
                X = np.vstack([X, candidates])
                missing = np.full(len(candidates), self.missing_label, labels.dtype if labels.dtype.kind == "f" else object)
                labels = np.concatenate([labels, missing])
                allowed = np.arange(first, len(labels))
        given = dict(self.settings or {})
        if self.use_clf:
            if clf is None:
                raise ValueError("use_clf=True needs a classifier: query(X, y, clf)")
            model = clf.fit(X, labels) if fit_clf else clf
            if hasattr(model, "predict_proba"):
                given["predictions"], given["classes"] = model.predict_proba(X), model.classes_
            else:
                given["predictions"] = model.predict(X)
        state: Any = self.random_state
        seed = int(state.randint(1 << 31)) if isinstance(state, np.random.RandomState) else state
        chosen = core.select(X, labels, strategy=self.strategy, batch=batch_size, candidates=allowed,
                             missing_label=self.missing_label, seed=seed, **given)
        indices = chosen.indices - first
        if not return_utilities:
            return indices
        utilities: np.ndarray = np.full((len(indices), X.shape[0] - first), np.nan)
        utilities[np.arange(len(indices)), indices] = chosen.gains
        return indices, utilities
