from .files import load_items as load_items
from .files import read_frame as read_frame
from .files import read_table as read_table
from .items import as_frame as as_frame
from .messages import split_messages as split_messages
from .schemas import empty as empty
from .schemas import table as table
from .steps import explode_steps as explode_steps
