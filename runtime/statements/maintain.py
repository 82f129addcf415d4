"""MAINTAIN and SHOW RETENTION.

For each table: compact, compute the needs of consumers, delete the rest. Compaction comes first, so
RETAIN 0 also deletes the files that it replaces, if no consumer needs them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ctsql.catalog import times
from ctsql.catalog.dependencies import check_outlined, closure, outputs_of
from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.items import Item, Task
from ctsql.catalog.names import Name
from ctsql.planner.binding.binder import qualify
from ctsql.planner.syntax.ast import Maintain, Show
from ctsql.runtime.delta import files as adapter
from ctsql.runtime.delta.files import Compaction
from ctsql.runtime.delta.table import DeltaTable
from ctsql.runtime.log import clock
from ctsql.runtime.maintenance import retention, vacuum
from ctsql.runtime.maintenance.compaction import THOROUGH, choose
from ctsql.runtime.maintenance.consumers import (
    READS,
    Needs,
    needs,
    noting_damaged,
    system_floor,
)
from ctsql.runtime.statements.definitions.cutover import forget_definitions
from ctsql.runtime.statements.definitions.dropped import remove_dropped
from ctsql.runtime.statements.objects.name_resolution import OnNames
from ctsql.runtime.views.side_table import side_tables_of
from ctsql.runtime.warehouse.followed_tables import keep_logs
from ctsql.runtime.warehouse.stores.location import SYSTEM_FOLDER
from ctsql.runtime.warehouse.table_checks import check_tables, missing_table
from ctsql.runtime.warehouse.times.replaced_tables import LOST

MaintainRow = tuple[object, ...]

ROUNDS_MAX = 100
"""Rounds of compaction of one table in a statement, each limited by ``Limits.batch_bytes``."""

MAINTAINED = (
    ("schema", "string"),
    ("name", "string"),
    ("kind", "string"),
    ("files_compacted", "bigint"),
    ("files_removed", "bigint"),
    ("bytes_removed", "bigint"),
    ("log_files_removed", "bigint"),
    ("oldest_version_kept", "bigint"),
    ("kept_for", "string"),
)
RETAINED = (
    ("schema", "string"),
    ("name", "string"),
    ("kind", "string"),
    ("needed_by", "string"),
    ("oldest_version", "bigint"),
    ("since_t", "bigint"),
    ("since", "string"),
    ("freeable_bytes", "bigint"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """One table to maintain; ``item`` is None for ctsql's own."""

    table: DeltaTable
    name: tuple[str, str, str]
    item: Item | None = None

    @property
    def label(self) -> str:
        return str(Name(*self.name[:2]))


class Maintenance(OnNames):
    """MAINTAIN and SHOW RETENTION."""

    def maintain(self, statement: Maintain) -> list[MaintainRow]:
        """MAINTAIN: one row per table, with :data:`MAINTAINED`."""
        dry = statement.dry_run
        retain = statement.retain_ms
        now_ms = clock.now_ms()
        keep_from = now_ms - (retention.RETAIN_DEFAULT_MS if retain is None else retain)
        unnamed_before = min(keep_from, now_ms - retention.UNNAMED_AGE_MS)
        log_from = now_ms - (retention.LOG_RETAIN_DEFAULT_MS if retain is None else retain)
        if not dry:
            # Complete decided transactions of killed processes: no log names their files yet.
            self.engine.timeline.refresh()
            if self.engine.timeline.intents:
                self.engine.mint()
        if statement.target is None and not dry:
            self._forget_definitions()
            keep_logs(self.engine.warehouse)
        problems: dict[str, CtsqlError] = {}
        works = list(self._works(statement, problems))
        if statement.target is None and not dry:
            self.engine.timeline.archive()
        compactions: dict[str, Compaction] = {}
        for work in works:
            with noting_damaged(problems, work.label):
                compactions[work.table.location] = self._compact(work, dry=dry)
        problems_by_id: dict[str, CtsqlError] = {}
        needs_by_id = needs(
            self.engine,
            keep_from=keep_from,
            replaced_from=None if retain == 0 else keep_from,
            problems=problems_by_id,
        )
        floors = vacuum.log_floors(self.engine, needs_by_id, log_from, problems_by_id)
        rows: list[MaintainRow] = []
        for work in works:
            compaction = compactions.get(work.table.location)
            if compaction is None:
                continue
            with noting_damaged(problems, work.label):
                if work.item is not None and work.item.id in problems_by_id:
                    raise problems_by_id[work.item.id]
                plan, kept_for = self._plan(
                    work, needs_by_id, floors.get(work.table.location), unnamed_before
                )
                files, log = list(plan.files), len(plan.log)
                if not dry:
                    files = adapter.delete_files(work.table, plan.files)
                    log = adapter.delete_log_files(work.table, plan.log)
                size = sum(f.size for f in files)
                line = (compaction.before, len(files), size, log, plan.floor, kept_for)
                rows.append((*work.name, *line))
        if statement.target is None:
            rows += self._purge(keep_from, dry=dry)
            rows += self._folders(unnamed_before, dry=dry)
        for problem in problems.values():  # the first table that was left out
            if statement.target is None:
                sentence = f"Left out: {', '.join(problems)}. All other tables were maintained."
                problem.detail = f"{problem.detail or ''} {sentence}".strip()
            raise problem
        return rows

    def _forget_definitions(self) -> None:
        """Drop definitions of tasks that no later T runs with, and replacements that they read."""
        catalog = self.engine.refresh_catalog()
        ids = [i.id for i in catalog if isinstance(i, Task) and i.earlier]
        readable = self.engine.relations.readable(ids) if ids else set()
        for task in (catalog.items[i] for i in ids if i in readable):
            try:
                if missing_table(self.engine.relations, closure(catalog, [task.id])) is not None:
                    continue
                forget_definitions(self.engine, task)
            except CtsqlError as problem:
                if problem.condition not in LOST:
                    raise
                # Its progress is unknown, so nothing is dropped.

    def _works(self, statement: Maintain, problems: dict[str, CtsqlError]) -> Iterator[_Work]:
        catalog = self.engine.refresh_catalog()
        if statement.target is not None:
            for item in self._named_items(statement):
                yield from self._with_side_tables(item)
            return
        for item in sorted(catalog, key=lambda i: i.name.key):
            is_kept = statement.everything and item.managed and item.location and not item.problem
            with noting_damaged(problems, str(item.name)):
                is_there = missing_table(self.engine.relations, [item]) is None
                if (item.is_output or is_kept) and is_there:
                    yield from self._with_side_tables(item)
        for name, table in (
            ("catalog", self.engine.catalog_store.table),
            ("timeline", self.engine.timeline.table),
        ):
            yield _Work(table=table, name=(SYSTEM_FOLDER, name, "system table"))

    def _with_side_tables(self, item: Item) -> Iterator[_Work]:
        name = (item.name.schema, item.name.name, item.kind.value)
        yield _Work(table=self.engine.relations.table(item), name=name, item=item)
        for side_table in side_tables_of(self.engine.warehouse, item):
            name = (item.name.schema, item.name.name, side_table.kind.value)
            yield _Work(table=side_table.table, name=name)

    def _named_items(self, statement: Maintain | Show) -> list[Item]:
        """The named object, or the outputs of a task with several."""
        ref = statement.target
        assert ref is not None  # the caller looked
        catalog = self.engine.refresh_catalog()
        item = catalog.get(qualify(ref, self.names.search_schema), span=ref.span)
        if item.outputs:
            check_tables(self.engine.relations, outputs_of(catalog, item))
            return outputs_of(catalog, item)
        if item.location is None:
            hint = "A view stores no rows. Name the tables that it reads."
            raise item.wrong_kind("stored object", hint, ref.span)
        check_tables(self.engine.relations, [item])
        return [item]

    def _compact(self, work: _Work, *, dry: bool) -> Compaction:
        """Compact a table; if another commit comes first, the next MAINTAIN does the rest."""
        table = work.table
        if dry:
            groups = choose(table.files(table.version()).values(), THOROUGH)
            return Compaction(before=sum(map(len, groups)), after=len(groups))
        is_source = work.item is not None and not work.item.is_output
        if is_source and adapter.is_of_others(table):
            return adapter.optimize(table)
        before = after = 0
        for _ in range(ROUNDS_MAX):
            compaction = adapter.compact(table, lambda files: choose(files, THOROUGH))
            if compaction is None or compaction.version is None:
                break
            before, after = before + compaction.before, after + compaction.after
        return Compaction(before=before, after=after)

    def _plan(
        self, work: _Work, needs: dict[str, Needs], log_floor: int | None, unnamed_before: int
    ) -> tuple[vacuum.FilesToDelete, str]:
        """The plan for a table, and the consumers that need the rest."""
        if work.item is None:
            floor = system_floor(work.table, before_ms=clock.now_ms() - retention.LOG_AGE_MS)
            kept_for = "processes that have the warehouse open"
        else:
            row_needs = needs[work.item.id].rows
            floor = min(n.version for n in row_needs)
            kept_for = "; ".join(
                f"{n.consumer} since T = {n.since}"
                for n in sorted(row_needs, key=lambda n: n.since)
                if n.version == floor
            )
        plan = vacuum.plan(
            work.table, floor=floor, log_floor=log_floor, unnamed_before_ms=unnamed_before
        )
        return plan, kept_for

    def _purge(self, before_ms: int, *, dry: bool) -> list[MaintainRow]:
        """Delete the files of objects that were dropped longer ago than RETAIN."""
        drops = [d for d in self.engine.catalog.drops.values() if d.at_ms < before_ms]
        items = [item for drop in drops for item in drop.items]
        sizes = {item.id: self._measure(item) for item in items}
        if not dry:
            items = remove_dropped(self.engine, drops)
        rows: list[MaintainRow] = []
        for item in sorted(items, key=lambda i: i.name.key):
            name = (item.name.schema, item.name.name, f"dropped {item.kind.value}")
            rows.append((*name, 0, *sizes[item.id], 0, None, "nobody: it was dropped"))
        return rows

    def _measure(self, item: Item) -> tuple[int, int]:
        """The files and bytes of a dropped object's folder, if it will be deleted."""
        gateway = self.engine.gateway
        if item.location is None or not item.managed or not gateway.path_exists(item.location):
            return 0, 0
        folder = adapter.measure_folder(gateway, item.location)
        return folder.files_count, folder.size

    def _folders(self, before_ms: int, *, dry: bool) -> list[MaintainRow]:
        """Delete the folders that a killed CREATE or DROP left."""
        engine = self.engine
        gateway = engine.gateway
        places = adapter.table_folders(gateway, engine.location, leave_out=SYSTEM_FOLDER)
        # Tables have many files, so only folders without a known owner are measured.
        folders = [
            adapter.measure_folder(gateway, place)
            for place in places
            if vacuum.is_unowned(place, engine.catalog)
        ]
        catalog = engine.refresh_catalog()  # after the listing, so that it has all listed folders
        check_outlined(catalog)
        rows: list[MaintainRow] = []
        for folder in folders:
            if not vacuum.is_left_over(folder, catalog, before_ms=before_ms):
                continue
            if not dry:
                gateway.forget(folder.location)
                gateway.delete_tree(folder.location)
            _, schema, name = folder.location.rsplit("/", 2)
            line = (0, folder.files_count, folder.size, 0, None, "nobody: no object owns it")
            rows.append((schema, name, "left-over folder", *line))
        return rows

    def retention(self, statement: Show) -> list[MaintainRow]:
        """SHOW RETENTION: one row for each consumer of each table, with :data:`RETAINED`."""
        engine, now_ms = self.engine, clock.now_ms()
        catalog = engine.refresh_catalog()
        problems: dict[str, CtsqlError] = {}
        needs_by_id = needs(engine, keep_from=now_ms, problems=problems)
        items = [i for i in catalog if i.id in needs_by_id or i.id in problems]
        if statement.target is not None:
            items = self._named_items(statement)
        for item in items:
            if item.id in problems:
                raise problems[item.id]
        unnamed_before = now_ms - retention.UNNAMED_AGE_MS
        rows: list[MaintainRow] = []
        for item in sorted(items, key=lambda i: i.name.key):
            row_needs = sorted(needs_by_id[item.id].rows)
            plan = vacuum.plan(
                engine.relations.table(item),
                floor=row_needs[0].version,
                log_floor=None,
                unnamed_before_ms=unnamed_before,
            )
            name = (item.name.schema, item.name.name, item.kind.value)
            for need in row_needs:
                by = "reads of now" if need.consumer == READS else need.consumer
                since = times.to_iso(need.since)
                rows.append((*name, by, need.version, need.since, since, plan.freed_bytes))
        return rows
