"""Probes: what sways a judge that should not (place, length, instructions in the answer), beyond chance."""

from evalkit.probes.probing import probe_injection, probe_position, probe_verbosity
from evalkit.probes.results import Probe
from evalkit.probes.texts import Attack, Padding, load_attacks, load_paddings

__all__ = [
    "Attack",
    "Padding",
    "Probe",
    "load_attacks",
    "load_paddings",
    "probe_injection",
    "probe_position",
    "probe_verbosity",
]
