"""The table of conditions: by what is in the way, in the order of names."""

from ctsql.catalog.conditions.objects import OBJECTS
from ctsql.catalog.conditions.running import RUNNING
from ctsql.catalog.conditions.statements import STATEMENTS
from ctsql.catalog.error_classes import Condition

CONDITIONS: dict[str, Condition] = {
    row.name: row for row in sorted(STATEMENTS + OBJECTS + RUNNING, key=lambda row: row.name)
}
