"""Two threads may both be the first to need PySpark: one that starts it, one that reads logs."""

import subprocess
import sys

PROGRAM = """
import sys
from threading import Thread
from ctsql.api import connect
from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.warehouse.relations import columns_in

said = []

def start():
    try:
        connect("nowhere", spark=object()).start()
    except CtsqlError as problem:  # it comes when all is imported
        said.append(problem.condition)

def read():
    while "pyspark" not in sys.modules:
        pass
    said.append(columns_in(SCHEMA)[0].type)

FIELD = '{"name": "a", "type": "integer", "nullable": true, "metadata": {}}'
SCHEMA = f'{{"type": "struct", "fields": [{FIELD}]}}'
threads = [Thread(target=start), Thread(target=read)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(sorted(said))
"""


def test_a_start_and_a_look_at_once() -> None:
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert found.stdout == "['SPARK_WITHOUT_DELTA', 'int']\n", found.stderr
