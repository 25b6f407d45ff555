"""The calibration report: how good a classifier is, and whether its confidence can be trusted."""

from memdecay.training.calibration.calibrate import CalibrationConfig, calibrate
from memdecay.training.calibration.report import CalibrationReport
from memdecay.training.calibration.section import Section, Table
from memdecay.training.calibration.writing import write_report

__all__ = [
    "CalibrationConfig",
    "CalibrationReport",
    "Section",
    "Table",
    "calibrate",
    "write_report",
]
