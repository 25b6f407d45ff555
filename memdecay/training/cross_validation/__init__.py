"""How good a classifier is on sources that it was not trained on."""

from memdecay.training.cross_validation.leave_sources_out import (
    ALONE,
    CEILING,
    CLASSIFIER,
    RESULTS_FILE,
    TABLE_FILE,
    CrossValidationConfig,
    cross_validate,
)
from memdecay.training.cross_validation.results import (
    CrossValidation,
    TaggerFigures,
    read_temperature,
)

__all__ = [
    "ALONE",
    "CEILING",
    "CLASSIFIER",
    "RESULTS_FILE",
    "TABLE_FILE",
    "CrossValidation",
    "CrossValidationConfig",
    "TaggerFigures",
    "cross_validate",
    "read_temperature",
]
