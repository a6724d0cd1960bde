"""Probes: does a judge follow the position, the length or the instructions of an answer, beyond chance?"""

from evalkit.probes.added_texts import Attack, Padding, load_attacks, load_paddings
from evalkit.probes.probing import probe_injection, probe_position, probe_verbosity
from evalkit.probes.results import Probe

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
