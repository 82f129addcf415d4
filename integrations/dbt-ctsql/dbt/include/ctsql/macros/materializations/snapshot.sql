{# The merge reads the query in place of a temporary table: one statement, one commit. #}
{% macro build_snapshot_staging_table(strategy, sql, target_relation) %}
    {{ return(adapter.query_relation(snapshot_staging_table(strategy, sql, target_relation))) }}
{% endmacro %}

{% macro ctsql__snapshot_hash_arguments(args) -%}
    md5(concat_ws('|'
    {%- for arg in args %}, coalesce(cast({{ arg }} as string), ''){% endfor -%}
    ))
{%- endmacro %}

{% macro ctsql__snapshot_string_as_time(timestamp) -%}
    {{ return("timestamp '" ~ timestamp ~ "'") }}
{%- endmacro %}
