{# New rows are checked before readers see them. The table is built under another name where its constraints are new. #}
{% macro ctsql__build_constrained_table(existing_relation, relation, sql) -%}
    {%- do get_assert_columns_equivalent(sql) -%}
    {%- set columns = adapter.column_list(model['columns'], model['constraints']) -%}
    {%- set select_sql = get_select_subquery(sql) -%}
    {%- set tmp_relation = make_temp_relation(relation) -%}
    {%- if existing_relation is not none and adapter.has_columns(existing_relation, columns) -%}
        insert overwrite {{ relation.render() }} {{ select_sql }}
    {%- else -%}
        drop table if exists {{ tmp_relation.render() }} purge;
        create table {{ tmp_relation.render() }} {{ columns }} {{ ctsql__table_clauses() }};
        insert into {{ tmp_relation.render() }} {{ select_sql }};
        {%- if existing_relation is none %}
        alter table {{ tmp_relation.render() }} rename to {{ relation.render() }}
        {%- endif -%}
    {%- endif -%}
{%- endmacro %}
