{% materialization materialized_view, adapter='ctsql' %}
    {%- set target_relation = this.incorporate(type='materialized_view') -%}
    {{ run_hooks(pre_hooks, inside_transaction=False) }}
    {{ run_hooks(pre_hooks) }}
    {% set build_sql = ctsql__materialized_view_sql(ctsql__make_room(target_relation), target_relation, sql) %}
    {% if build_sql %}
        {% call statement('main') -%}
            {{ build_sql }}
        {%- endcall %}
    {% else %}
        {{ materialized_view_execute_no_op(target_relation) }}
    {% endif %}
    {{ return(ctsql__finish(target_relation, post_hooks)) }}
{% endmaterialization %}

{# The statements that make a view as its model has it; none if changed options are ignored. #}
{% macro ctsql__materialized_view_sql(existing_relation, relation, sql) %}
    {% if existing_relation is none %}
        {{ return(get_create_materialized_view_as_sql(relation, sql)) }}
    {% endif %}
    {% if should_full_refresh() %}
        {{ return(get_replace_sql(existing_relation, relation, sql)) }}
    {% endif %}
    {% set changes = get_materialized_view_configuration_changes(existing_relation, config) %}
    {% if changes is none %}
        {# Nothing is written for the same query and the same data. #}
        {{ return(get_create_materialized_view_as_sql(relation, sql) ~ ';\n' ~ refresh_materialized_view(relation)) }}
    {% endif %}
    {% set action = config.get('on_configuration_change') %}
    {% set found = 'Configuration changes were identified and `on_configuration_change` was set to `' ~ action ~ '` for `' ~ relation.render() ~ '`' %}
    {% if action == 'fail' %}
        {{ exceptions.raise_fail_fast_error(found) }}
    {% elif action == 'continue' %}
        {{ exceptions.warn(found) }}
        {{ return(none) }}
    {% elif changes.replace %}
        {{ return(get_replace_sql(existing_relation, relation, sql)) }}
    {% endif %}
    {{ return(get_alter_materialized_view_as_sql(relation, changes, sql, existing_relation, none, none)) }}
{% endmacro %}

{% macro ctsql__get_create_materialized_view_as_sql(relation, sql) -%}
    {%- set contract = config.get('contract').enforced -%}
    {%- set options = ctsql__materialized_view_options() -%}
    create or replace materialized view {{ relation.render() }}
    {%- if contract %}
    {{ get_assert_columns_equivalent(sql) }}
    {{ adapter.column_list(model['columns'], model['constraints'], 'materialized_view') }}
    {%- endif -%}
    {%- if options %}
with (
    {{ options | join(',\n    ') }}
)
    {%- endif %}
as {{ get_select_subquery(sql) if contract else sql }}
{%- endmacro %}

{# The options of a view, each as SQL spells it, in a fixed order. #}
{% macro ctsql__materialized_view_options() -%}
    {%- set options = [] -%}
    {%- set refresh = config.get('refresh') or [] -%}
    {%- for when in ([refresh] if refresh is string else refresh) -%}
        {%- do options.append('refresh ' ~ when) -%}
    {%- endfor -%}
    {%- for key, option in [
        ('refresh_policy', 'refresh policy'), ('deletion_vectors', 'deletion vectors'), ('location', 'location')
    ] if config.get(key) is not none -%}
        {%- set value = config.get(key) -%}
        {%- do options.append(option ~ ' = ' ~ (ctsql__text(value) if key == 'location' else value | lower)) -%}
    {%- endfor -%}
    {{ return(options) }}
{%- endmacro %}

{% macro ctsql__get_materialized_view_configuration_changes(existing_relation, new_config) %}
    {{ return(adapter.option_changes(existing_relation, ctsql__materialized_view_options())) }}
{% endmacro %}

{# ctsql compares the two definitions, and writes the rows that differ. #}
{% macro ctsql__get_alter_materialized_view_as_sql(
    relation, configuration_changes, sql, existing_relation, backup_relation, intermediate_relation
) %}
    {{ get_create_materialized_view_as_sql(relation, sql) }}
{% endmacro %}

{# Recomputes all rows. Options that are fixed at creation need a new view. #}
{% macro ctsql__get_replace_sql(existing_relation, target_relation, sql) %}
    {%- set changes = adapter.option_changes(existing_relation, ctsql__materialized_view_options()) or {} -%}
    {%- if changes.replace %}
        drop materialized view {{ existing_relation.render() }};
    {%- endif %}
    {{ get_create_materialized_view_as_sql(target_relation, sql) }};
    refresh materialized view {{ target_relation.render() }} full
{% endmacro %}

{% macro ctsql__refresh_materialized_view(relation) -%}
    refresh materialized view {{ relation.render() }}
{%- endmacro %}
