{# Spark reads the file itself: one commit replaces the rows, and the columns where they differ. #}
{% macro ctsql__create_csv_table(model, agate_table) %}
    {%- set types = model['config'].get('column_types') or {} -%}
    {%- set is_quoted = model['config'].get('quote_columns') -%}
    {%- set columns = [] -%}
    {%- for name in agate_table.column_names -%}
        {%- set type = types.get(name, adapter.convert_type(agate_table, loop.index0)) -%}
        {%- do columns.append(adapter.quote_seed_column(name, is_quoted) ~ ' ' ~ ctsql__type(type)) -%}
    {%- endfor -%}
    {% set load_sql -%}
        create or replace table {{ this.render() }} {{ ctsql__table_clauses() }} as
        select * from read_csv(
            {{ ctsql__text(agate_table.original_abspath) }},
            schema => {{ ctsql__text(columns | join(', ')) }},
            sep => {{ ctsql__text(model['config'].get('delimiter') or ',') }},
            nullValue => 'null',
            emptyValue => 'null'
        )
        {%- if not agate_table.rows %} where false{% endif %}
    {%- endset %}
    {% call statement('_') %}{{ load_sql }}{% endcall %}
    {{ return(load_sql) }}
{% endmacro %}

{% macro ctsql__reset_csv_table(model, full_refresh, old_relation, agate_table) %}
    {{ return(create_csv_table(model, agate_table)) }}
{% endmacro %}

{% macro ctsql__load_csv_rows(model, agate_table) %}
    {{ return('') }}
{% endmacro %}
