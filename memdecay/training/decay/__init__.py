"""How the regions of a language model's memory fade, measured by what it attends to."""

from memdecay.training.decay.report import DecayConfig, DecayReport, measure_decay

__all__ = ["DecayConfig", "DecayReport", "measure_decay"]
