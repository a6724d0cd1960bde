from .added_texts import Attack as Attack
from .added_texts import load_attacks as load_attacks
from .added_texts import load_paddings as load_paddings
from .probing import probe_injection as probe_injection
from .probing import probe_position as probe_position
from .probing import probe_verbosity as probe_verbosity
