{# Constraints are checked before readers see a row. A table with the same contract is overwritten in one
   commit. For a new table or contract, the rows are first written to a temporary table that has it. #}
{% macro ctsql__build_constrained_table(existing_relation, relation, sql) -%}
    {%- do get_assert_columns_equivalent(sql) -%}
    {%- set select_sql = get_select_subquery(sql) -%}
    {%- set tmp_relation = make_temp_relation(relation) -%}
    {%- set create_sql -%}
        drop table if exists {{ tmp_relation.render() }} purge;
        create table {{ tmp_relation.render() }} {{ adapter.column_list(model['columns'], model['constraints']) }}
        {{ ctsql__table_clauses() }}
    {%- endset -%}
    {{ config.get('sql_header') or '' }}
    {%- if existing_relation is none %}
        {{ create_sql }};
        insert into {{ tmp_relation.render() }} {{ select_sql }};
        alter table {{ tmp_relation.render() }} rename to {{ relation.render() }}
    {%- else -%}
        {%- do run_query(create_sql) -%}
        {%- set changes = adapter.contract_changes(relation, tmp_relation) -%}
        {%- if changes is none -%}
        insert overwrite {{ relation.render() }} {{ select_sql }}
        {%- else -%}
        insert into {{ tmp_relation.render() }} {{ select_sql }};
        {%- for statement in changes.before %}{{ statement }};{% endfor %}
        create or replace table {{ relation.render() }} as select * from {{ tmp_relation.render() }}
        {%- for statement in changes.after %};{{ statement }}{% endfor -%}
        {%- endif -%};
        drop table {{ tmp_relation.render() }} purge
    {%- endif -%}
{%- endmacro %}
