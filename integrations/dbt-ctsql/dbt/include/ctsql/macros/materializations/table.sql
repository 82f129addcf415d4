{% materialization table, adapter='ctsql' %}
    {%- set target_relation = this.incorporate(type='table') -%}
    {{ run_hooks(pre_hooks, inside_transaction=False) }}
    {{ run_hooks(pre_hooks) }}
    {% set existing_relation = ctsql__make_room(target_relation) %}
    {% call statement('main') -%}
        {{ ctsql__build_table(existing_relation, target_relation, sql) }}
    {%- endcall %}
    {{ return(ctsql__finish(target_relation, post_hooks)) }}
{% endmaterialization %}

{# The end of every materialization: grants, comments, hooks, and the relation. #}
{% macro ctsql__finish(target_relation, post_hooks) %}
    {% do apply_grants(target_relation, config.get('grants'), should_revoke=False) %}
    {% do persist_docs(target_relation, model) %}
    {{ run_hooks(post_hooks) }}
    {{ run_hooks(post_hooks, inside_transaction=False) }}
    {{ return({'relations': [target_relation]}) }}
{% endmacro %}

{% macro ctsql__build_table(existing_relation, relation, sql) -%}
    {%- if config.get('contract').enforced -%}
        {{ ctsql__build_constrained_table(existing_relation, relation, sql) }}
    {%- else -%}
        {{ get_create_table_as_sql(False, relation, sql) }}
    {%- endif -%}
{%- endmacro %}

{# One commit: readers see the old rows or the new ones, and followers the rows that differ. #}
{% macro ctsql__create_table_as(temporary, relation, sql) -%}
    {{ config.get('sql_header') or '' }}
    create or replace table {{ relation.render() }}
    {{ ctsql__table_clauses() }}
    as {{ sql }}
{%- endmacro %}

{% macro ctsql__table_clauses() -%}
    {%- set columns = config.get('partition_by') -%}
    {%- if columns %}
    partitioned by ({{ ([columns] if columns is string else columns) | join(', ') }})
    {%- endif -%}
    {%- if config.get('tblproperties') %}
    tblproperties (
        {%- for name, value in config.get('tblproperties').items() -%}
        '{{ name }}' = '{{ value }}'{{ ', ' if not loop.last }}
        {%- endfor -%}
    )
    {%- endif -%}
{%- endmacro %}
