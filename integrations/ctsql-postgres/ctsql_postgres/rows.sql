-- The rows, filled again when the warehouse's relations have changed.

INSERT INTO pgc.pg_type BY NAME
    SELECT oid, name AS typname, 11 AS typnamespace, 10 AS typowner, size AS typlen,
        by_value AS typbyval, CASE WHEN category = 'A' THEN 'array_in' ELSE name || 'in' END AS typinput,
        100000 + oid AS typreceive, kind AS typtype, category AS typcategory,
        false AS typispreferred, true AS typisdefined, ',' AS typdelim, 0 AS typrelid,
        item AS typelem, "array" AS typarray, false AS typnotnull, 0 AS typbasetype,
        -1 AS typtypmod, 0 AS typndims,
        CASE WHEN category = 'S' THEN 100 ELSE 0 END AS typcollation
    FROM raw.types;
-- Npgsql recognises array types by the name of this function.
INSERT INTO pgc.pg_proc BY NAME
    SELECT 100000 + oid AS oid, CASE WHEN category = 'A' THEN 'array_recv' ELSE name || 'recv' END
        AS proname, 11 AS pronamespace, 10 AS proowner
    FROM raw.types;
INSERT INTO pgc.pg_namespace BY NAME SELECT oid, name AS nspname, 10 AS nspowner FROM raw.schemas;
INSERT INTO pgc.pg_class BY NAME
    SELECT o.oid, o.name AS relname, s.oid AS relnamespace, 0 AS reltype, 0 AS reloftype,
        10 AS relowner, CASE WHEN o.relkind = 'v' THEN 0 ELSE 2 END AS relam, 0 AS relfilenode,
        0 AS reltablespace, 0 AS relpages, -1 AS reltuples, 0 AS reltoastrelid,
        false AS relhasindex, false AS relisshared, 'p' AS relpersistence, o.relkind,
        (SELECT count(*) FROM raw.columns c WHERE c.oid = o.oid) AS relnatts, 0 AS relchecks,
        false AS relhasrules, false AS relhastriggers, false AS relhassubclass,
        false AS relrowsecurity, false AS relforcerowsecurity, true AS relispopulated,
        'd' AS relreplident, false AS relispartition, 0 AS relrewrite
    FROM raw.objects o JOIN raw.schemas s ON s.name = o.schema;
INSERT INTO pgc.pg_attribute BY NAME
    SELECT c.oid AS attrelid, c.name AS attname, c.type AS atttypid, y.typlen AS attlen,
        c.number AS attnum, -1 AS attcacheoff, c.modifier AS atttypmod,
        CASE WHEN y.typcategory = 'A' THEN 1 ELSE 0 END AS attndims, y.typbyval AS attbyval,
        'p' AS attstorage, 'i' AS attalign, '' AS attcompression, c.not_null AS attnotnull,
        false AS atthasdef, false AS atthasmissing, '' AS attidentity, '' AS attgenerated,
        false AS attisdropped, true AS attislocal, 0 AS attinhcount,
        CASE WHEN y.typcategory = 'S' THEN 100 ELSE 0 END AS attcollation
    FROM raw.columns c JOIN pgc.pg_type y ON y.oid = c.type;
INSERT INTO pgc.pg_description BY NAME
    SELECT oid AS objoid, 1259 AS classoid, 0 AS objsubid, comment AS description
    FROM raw.objects WHERE comment IS NOT NULL
    UNION ALL
    SELECT oid, 1259, number, comment FROM raw.columns WHERE comment IS NOT NULL;
INSERT INTO pgc.pg_am BY NAME SELECT 2 AS oid, 'heap' AS amname, 0 AS amhandler, 't' AS amtype;
INSERT INTO pgc.pg_collation BY NAME
    SELECT 100 AS oid, 'default' AS collname, 11 AS collnamespace, 10 AS collowner,
        'd' AS collprovider, true AS collisdeterministic, -1 AS collencoding;
INSERT INTO pgc.pg_tablespace BY NAME SELECT 1663 AS oid, 'pg_default' AS spcname, 10 AS spcowner;
INSERT INTO pgc.pg_database BY NAME
    SELECT 16384 AS oid, getvariable('database') AS datname, 10 AS datdba, 6 AS encoding,
        'c' AS datlocprovider, false AS datistemplate, true AS datallowconn, -1 AS datconnlimit,
        1663 AS dattablespace, 'C' AS datcollate, 'C' AS datctype;
INSERT INTO pgc.pg_roles BY NAME
    SELECT 10 AS oid, getvariable('username') AS rolname, false AS rolsuper, true AS rolinherit,
        false AS rolcreaterole, false AS rolcreatedb, true AS rolcanlogin,
        false AS rolreplication, -1 AS rolconnlimit, '********' AS rolpassword,
        false AS rolbypassrls;
INSERT INTO pgc.pg_authid BY NAME
    SELECT oid, rolname, rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin,
        rolreplication, rolbypassrls, rolconnlimit FROM pgc.pg_roles;
INSERT INTO pgc.pg_user BY NAME
    SELECT rolname AS usename, oid AS usesysid, false AS usecreatedb, false AS usesuper,
        false AS userepl, false AS usebypassrls FROM pgc.pg_roles;
INSERT INTO pgc.pg_tables BY NAME
    SELECT schema AS schemaname, name AS tablename, getvariable('username') AS tableowner,
        false AS hasindexes, false AS hasrules, false AS hastriggers, false AS rowsecurity
    FROM raw.objects WHERE relkind = 'r';
INSERT INTO pgc.pg_views BY NAME
    SELECT schema AS schemaname, name AS viewname, getvariable('username') AS viewowner, definition
    FROM raw.objects WHERE relkind = 'v';
INSERT INTO pgc.pg_matviews BY NAME
    SELECT schema AS schemaname, name AS matviewname, getvariable('username') AS matviewowner,
        false AS hasindexes, true AS ispopulated, definition
    FROM raw.objects WHERE relkind = 'm';
INSERT INTO pgc.pg_stat_user_tables BY NAME
    SELECT oid AS relid, schema AS schemaname, name AS relname FROM raw.objects WHERE relkind = 'r';
INSERT INTO infs.information_schema_catalog_name BY NAME
    SELECT getvariable('database') AS catalog_name;
INSERT INTO infs.enabled_roles BY NAME SELECT getvariable('username') AS role_name;
INSERT INTO infs.schemata BY NAME
    SELECT getvariable('database') AS catalog_name, name AS schema_name,
        getvariable('username') AS schema_owner
    FROM raw.schemas;
INSERT INTO infs.tables BY NAME
    SELECT getvariable('database') AS table_catalog, schema AS table_schema, name AS table_name,
        CASE WHEN relkind = 'v' THEN 'VIEW' ELSE 'BASE TABLE' END AS table_type,
        CASE WHEN kind = 'table' THEN 'YES' ELSE 'NO' END AS is_insertable_into, 'NO' AS is_typed
    FROM raw.objects;
INSERT INTO infs.views BY NAME
    SELECT getvariable('database') AS table_catalog, schema AS table_schema, name AS table_name,
        definition AS view_definition, 'NONE' AS check_option, 'NO' AS is_updatable,
        'NO' AS is_insertable_into, 'NO' AS is_trigger_updatable, 'NO' AS is_trigger_deletable,
        'NO' AS is_trigger_insertable_into
    FROM raw.objects WHERE relkind = 'v';
INSERT INTO infs.columns BY NAME
    SELECT getvariable('database') AS table_catalog, o.schema AS table_schema,
        o.name AS table_name, c.name AS column_name, c.number AS ordinal_position,
        CASE WHEN c.not_null THEN 'NO' ELSE 'YES' END AS is_nullable,
        CASE WHEN y.typcategory = 'A' THEN 'ARRAY' ELSE n.name END AS data_type,
        CASE WHEN c.modifier > 3 THEN (c.modifier - 4) >> 16 WHEN y.typname = 'int2' THEN 16
            WHEN y.typname = 'int4' THEN 32 WHEN y.typname = 'int8' THEN 64
            WHEN y.typname = 'float4' THEN 24 WHEN y.typname = 'float8' THEN 53
        END AS numeric_precision,
        CASE WHEN y.typname = 'numeric' THEN 10 WHEN y.typcategory = 'N' THEN 2
        END AS numeric_precision_radix,
        CASE WHEN c.modifier > 3 THEN (c.modifier - 4) & 2047
            WHEN y.typname LIKE 'int_' THEN 0 END AS numeric_scale,
        CASE WHEN y.typname IN ('timestamp', 'timestamptz', 'time') THEN 6
            WHEN y.typname = 'date' THEN 0 END AS datetime_precision,
        getvariable('database') AS udt_catalog, 'pg_catalog' AS udt_schema,
        y.typname AS udt_name, c.number AS dtd_identifier, 'NO' AS is_self_referencing,
        'NO' AS is_identity, 'NO' AS identity_cycle, 'NEVER' AS is_generated,
        CASE WHEN o.kind = 'table' THEN 'YES' ELSE 'NO' END AS is_updatable
    FROM raw.columns c JOIN raw.objects o ON o.oid = c.oid JOIN pgc.pg_type y ON y.oid = c.type
        JOIN pgc.sql_names n ON n.oid = c.type;
INSERT INTO infs.table_privileges BY NAME
    SELECT getvariable('username') AS grantor, getvariable('username') AS grantee,
        getvariable('database') AS table_catalog, schema AS table_schema, name AS table_name,
        'SELECT' AS privilege_type, 'NO' AS is_grantable, 'YES' AS with_hierarchy
    FROM raw.objects;
INSERT INTO infs.role_table_grants BY NAME SELECT * FROM infs.table_privileges;
INSERT INTO infs.character_sets BY NAME
    SELECT 'UTF8' AS character_set_name, 'UCS' AS character_repertoire, 'UTF8' AS form_of_use,
        getvariable('database') AS default_collate_catalog,
        'pg_catalog' AS default_collate_schema, 'C' AS default_collate_name;
INSERT INTO pgc.pg_settings BY NAME
    SELECT name, value AS setting, 'ctsql' AS category, 'user' AS context, 'string' AS vartype,
        'default' AS source, value AS boot_val, value AS reset_val, false AS pending_restart
    FROM raw.settings;
