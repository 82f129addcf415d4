"""How far Spark is with the jobs that it runs, for the line that is shown while one waits.

Spark counts the rows that a task reads when the task ends and at each heartbeat of its executor,
every ten seconds unless set otherwise.
"""

from dataclasses import dataclass

from py4j.protocol import Py4JError

from ctsql.runtime.spark.internals.jobs import running_tasks


@dataclass(frozen=True, slots=True)
class RunningJobs:
    """The jobs that run now: their tasks, and the rows that these have read."""

    tasks_done: int
    tasks: int
    rows_read: int

    def line(self) -> str:
        """What is shown.

        >>> RunningJobs(9, 20, 1234567).line(), RunningJobs(0, 1, 0).line()
        ('running 45 % of 20 tasks, 1,234,567 rows read', 'running 0 % of 1 task')
        """
        many = "task" if self.tasks == 1 else "tasks"
        rows = f", {self.rows_read:,} rows read" if self.rows_read else ""
        return f"running {100 * self.tasks_done // self.tasks} % of {self.tasks:,} {many}{rows}"


def running_jobs() -> RunningJobs | None:
    """What runs in this process's Spark; None for no job, and where Spark does not answer."""
    try:
        totals = running_tasks()
    except (Py4JError, ConnectionError):
        return None  # it is ending, or has just forgotten the job
    running = None if totals is None else RunningJobs(*totals)
    return running if running is not None and running.tasks else None
