{% macro ctsql__current_timestamp() -%}
    current_timestamp()
{%- endmacro %}

{% macro ctsql__drop_relation(relation) -%}
    {% call statement('drop_relation') -%}
        drop {{ relation.keyword }} if exists {{ relation.render() }}
    {%- endcall %}
{%- endmacro %}

{% macro ctsql__rename_relation(from_relation, to_relation) -%}
    {% call statement('rename_relation') -%}
        alter {{ from_relation.keyword }} {{ from_relation.render() }} rename to {{ to_relation.render() }}
    {%- endcall %}
{%- endmacro %}

{% macro ctsql__truncate_relation(relation) -%}
    {% call statement('truncate_relation') -%}
        delete from {{ relation.render() }}
    {%- endcall %}
{%- endmacro %}

{# The object that the model replaces. One of another kind is dropped first; ctsql refuses that while something reads it. #}
{% macro ctsql__make_room(target_relation) -%}
    {% set existing_relation = load_cached_relation(target_relation) %}
    {% if existing_relation is not none and existing_relation.type != target_relation.type %}
        {% do adapter.drop_relation(existing_relation) %}
        {{ return(none) }}
    {% endif %}
    {{ return(existing_relation) }}
{%- endmacro %}

{# There is no transaction around a model, so both kinds of hooks run one after the other. #}
{% macro run_hooks(hooks, inside_transaction=True) %}
    {% for hook in hooks | selectattr('transaction', 'equalto', inside_transaction) %}
        {% set rendered = render(hook.get('sql')) | trim %}
        {% if rendered %}
            {% call statement() %}{{ rendered }}{% endcall %}
        {% endif %}
    {% endfor %}
{% endmacro %}

{% macro ctsql__alter_relation_add_remove_columns(relation, add_columns, remove_columns) %}
    {% for column in add_columns or [] %}
        {% do run_query('alter table ' ~ relation.render() ~ ' add column ' ~ column.quoted ~ ' ' ~ ctsql__type(column.data_type)) %}
    {% endfor %}
    {% for column in remove_columns or [] %}
        {% do run_query('alter table ' ~ relation.render() ~ ' drop column ' ~ column.quoted) %}
    {% endfor %}
{% endmacro %}

{% macro ctsql__get_columns_in_relation(relation) %}
    {{ return(adapter.get_columns_in_relation(relation)) }}
{% endmacro %}

{# One commit; any type that the values can be cast to. #}
{% macro ctsql__alter_column_type(relation, column_name, new_column_type) %}
    {% set columns = [] %}
    {% for column in adapter.get_columns_in_relation(relation) %}
        {% set is_it = column.name | lower == column_name | lower %}
        {% do columns.append('cast(' ~ column.quoted ~ ' as ' ~ ctsql__type(new_column_type) ~ ') as ' ~ column.quoted if is_it else column.quoted) %}
    {% endfor %}
    {% do run_query('create or replace table ' ~ relation.render() ~ ' as select ' ~ columns | join(', ') ~ ' from ' ~ relation.render()) %}
{% endmacro %}

{# A type as Spark spells it: a text has no length. #}
{% macro ctsql__type(type) -%}
    {{ return('string' if type | lower in ('text', 'varchar') else type) }}
{%- endmacro %}

{% macro ctsql__apply_grants(relation, grant_config, should_revoke=True) %}
    {% if grant_config %}
        {% do exceptions.raise_compiler_error(
            "ctsql has no grants, but " ~ relation ~ " is configured with 'grants'. Rights are those of the store: "
            ~ "remove the configuration, and set them on the warehouse's folder."
        ) %}
    {% endif %}
{% endmacro %}

{% macro ctsql__current_timestamp_backcompat() -%}
    current_timestamp()
{%- endmacro %}
