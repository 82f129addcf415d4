-- PostgreSQL's functions about its catalog, and the rows of its relations, for DuckDB.
-- A macro's argument is inserted as text: names inside a macro begin with _, so an argument cannot mean one.
-- What ctsql does not have (indexes, triggers, rules) has no rows, and functions about it give NULL.

CREATE VIEW pgc.sql_names AS SELECT oid, sql_name AS name FROM raw.types;
CREATE MACRO pg_get_userbyid(o) AS getvariable('username');
CREATE MACRO pg_table_is_visible(o) AS o IN (SELECT _c.oid FROM pgc.pg_class _c WHERE _c.relnamespace = getvariable('namespace'));
CREATE MACRO pg_type_is_visible(o) AS true;
CREATE MACRO pg_function_is_visible(o) AS true;
CREATE MACRO pg_operator_is_visible(o) AS true;
CREATE MACRO pg_opclass_is_visible(o) AS true;
CREATE MACRO pg_collation_is_visible(o) AS true;
CREATE MACRO pg_conversion_is_visible(o) AS true;
CREATE MACRO pg_statistics_obj_is_visible(o) AS true;
CREATE MACRO pg_ts_config_is_visible(o) AS true;
CREATE MACRO format_type(o, m) AS (
    SELECT _s.name || CASE WHEN _s.oid = 1700 AND m > 3
        THEN '(' || ((m - 4) >> 16) || ',' || ((m - 4) & 2047) || ')' ELSE '' END
    FROM pgc.sql_names _s WHERE _s.oid = o);
CREATE MACRO obj_description(o) AS (
    SELECT _d.description FROM pgc.pg_description _d WHERE _d.objoid = o AND _d.objsubid = 0),
    (o, c) AS (SELECT _d.description FROM pgc.pg_description _d WHERE _d.objoid = o AND _d.objsubid = 0);
CREATE MACRO col_description(o, n) AS (
    SELECT _d.description FROM pgc.pg_description _d WHERE _d.objoid = o AND _d.objsubid = n);
CREATE MACRO shobj_description(o, c) AS NULL::VARCHAR;
CREATE MACRO pg_get_viewdef(o) AS (SELECT _r.definition FROM raw.objects _r WHERE _r.oid = o),
    (o, p) AS (SELECT _r.definition FROM raw.objects _r WHERE _r.oid = o);
CREATE MACRO pg_get_expr(a, b) AS NULL::VARCHAR, (a, b, c) AS NULL::VARCHAR;
CREATE MACRO pg_get_constraintdef(o) AS NULL::VARCHAR, (o, p) AS NULL::VARCHAR;
CREATE MACRO pg_get_indexdef(o) AS NULL::VARCHAR, (o, n, p) AS NULL::VARCHAR;
CREATE MACRO pg_get_ruledef(o) AS NULL::VARCHAR, (o, p) AS NULL::VARCHAR;
CREATE MACRO pg_get_triggerdef(o) AS NULL::VARCHAR, (o, p) AS NULL::VARCHAR;
CREATE MACRO pg_get_functiondef(o) AS NULL::VARCHAR;
CREATE MACRO pg_get_function_arguments(o) AS NULL::VARCHAR;
CREATE MACRO pg_get_function_identity_arguments(o) AS NULL::VARCHAR;
CREATE MACRO pg_get_function_result(o) AS NULL::VARCHAR;
CREATE MACRO pg_get_partkeydef(o) AS NULL::VARCHAR;
CREATE MACRO pg_get_partition_constraintdef(o) AS NULL::VARCHAR;
CREATE MACRO pg_get_statisticsobjdef_columns(o) AS NULL::VARCHAR;
CREATE MACRO pg_get_serial_sequence(t, c) AS NULL::VARCHAR;
CREATE MACRO pg_relation_size(o) AS NULL::BIGINT, (o, f) AS NULL::BIGINT;
CREATE MACRO pg_table_size(o) AS NULL::BIGINT;
CREATE MACRO pg_total_relation_size(o) AS NULL::BIGINT;
CREATE MACRO pg_indexes_size(o) AS NULL::BIGINT;
CREATE MACRO pg_database_size(o) AS NULL::BIGINT;
CREATE MACRO pg_size_pretty(n) AS CASE WHEN n IS NULL THEN NULL ELSE n || ' bytes' END;
CREATE MACRO pg_relation_is_publishable(o) AS false;
CREATE MACRO pg_relation_filenode(o) AS NULL::UINTEGER;
CREATE MACRO pg_stat_get_numscans(o) AS 0::BIGINT;
CREATE MACRO pg_encoding_to_char(n) AS 'UTF8';
CREATE MACRO pg_char_to_encoding(n) AS 6;
CREATE MACRO pg_client_encoding() AS 'UTF8';
CREATE MACRO pg_tablespace_location(o) AS '';
CREATE MACRO pg_is_in_recovery() AS false;
CREATE MACRO pg_is_wal_replay_paused() AS false;
CREATE MACRO pg_my_temp_schema() AS 0::UINTEGER;
CREATE MACRO pg_is_other_temp_schema(o) AS false;
CREATE MACRO pg_backend_pid() AS getvariable('process');
CREATE MACRO pg_postmaster_start_time() AS getvariable('started');
CREATE MACRO pg_conf_load_time() AS getvariable('started');
CREATE MACRO pg_advisory_unlock_all() AS NULL::VARCHAR;
CREATE MACRO txid_current() AS 1::BIGINT;
CREATE MACRO inet_server_addr() AS NULL::VARCHAR;
CREATE MACRO inet_server_port() AS NULL::INTEGER;
CREATE MACRO inet_client_addr() AS NULL::VARCHAR;
CREATE MACRO may(p) AS getvariable('writes') OR upper(p) IN ('SELECT', 'USAGE', 'CONNECT');
CREATE MACRO has_table_privilege(t, p) AS may(p), (u, t, p) AS may(p);
CREATE MACRO has_any_column_privilege(t, p) AS may(p), (u, t, p) AS may(p);
CREATE MACRO has_column_privilege(t, c, p) AS may(p), (u, t, c, p) AS may(p);
CREATE MACRO has_schema_privilege(s, p) AS may(p), (u, s, p) AS may(p);
CREATE MACRO has_database_privilege(d, p) AS may(p), (u, d, p) AS may(p);
CREATE MACRO has_sequence_privilege(s, p) AS may(p), (u, s, p) AS may(p);
CREATE MACRO has_function_privilege(f, p) AS may(p), (u, f, p) AS may(p);
CREATE MACRO has_tablespace_privilege(s, p) AS may(p), (u, s, p) AS may(p);
CREATE MACRO pg_has_role(r, p) AS true, (u, r, p) AS true;
CREATE MACRO current_schemas(implicit) AS CASE WHEN implicit
    THEN ['pg_catalog', getvariable('schema')] ELSE [getvariable('schema')] END;
CREATE MACRO quote_ident(t) AS CASE WHEN regexp_full_match(t, '[a-z_][a-z0-9_]*')
    THEN t ELSE '"' || replace(t, '"', '""') || '"' END;
CREATE MACRO quote_literal(t) AS '''' || replace(t, '''', '''''') || '''';
CREATE MACRO to_regclass(t) AS coalesce(
    (SELECT _c.oid FROM pgc.pg_class _c JOIN pgc.pg_namespace _n ON _n.oid = _c.relnamespace
    WHERE replace(t, '"', '') IN (_n.nspname || '.' || _c.relname,
        CASE WHEN _n.oid = getvariable('namespace') THEN _c.relname END)),
    CASE replace(replace(t, '"', ''), 'pg_catalog.', '') WHEN 'pg_type' THEN 1247 WHEN 'pg_attribute' THEN 1249
        WHEN 'pg_proc' THEN 1255 WHEN 'pg_class' THEN 1259 WHEN 'pg_database' THEN 1262
        WHEN 'pg_constraint' THEN 2606 WHEN 'pg_namespace' THEN 2615 WHEN 'pg_trigger' THEN 2620
    END::UINTEGER);
CREATE MACRO to_regtype(t) AS (
    SELECT _y.oid FROM pgc.pg_type _y JOIN pgc.sql_names _s ON _s.oid = _y.oid
    WHERE replace(t, '"', '') IN (_y.typname, _s.name) LIMIT 1);
CREATE MACRO class_name(o) AS (
    SELECT CASE WHEN _n.oid = getvariable('namespace') THEN '' ELSE quote_ident(_n.nspname) || '.' END
        || quote_ident(_c.relname)
    FROM pgc.pg_class _c JOIN pgc.pg_namespace _n ON _n.oid = _c.relnamespace WHERE _c.oid = o);
CREATE MACRO namespace_name(o) AS (SELECT _n.nspname FROM pgc.pg_namespace _n WHERE _n.oid = o);
CREATE MACRO array_upper(a, d) AS len(a);
CREATE MACRO array_lower(a, d) AS 1;
CREATE MACRO _pg_expandarray(a) AS unnest(list_transform(a, lambda x, i: {'x': x, 'n': i}));
CREATE MACRO parse_ident(t) AS string_split(replace(t, '"', ''), '.');
CREATE MACRO pg_get_keywords() AS TABLE
    SELECT keyword_name AS word, 'R' AS catcode FROM duckdb_keywords();
CREATE MACRO array_remove(a, v) AS list_filter(a, lambda _x: _x <> v);
