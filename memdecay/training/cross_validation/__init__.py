"""How good a classifier is on sources that it was not trained on."""

from memdecay.training.cross_validation.leave_sources_out import (
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
