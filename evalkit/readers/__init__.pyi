from .finding import find as find
from .finding import names as names
from .records import Reader as Reader
from .records import renamed as renamed
