{% materialization view, adapter='ctsql' %}
    {%- set target_relation = this.incorporate(type='view') -%}
    {{ run_hooks(pre_hooks, inside_transaction=False) }}
    {{ run_hooks(pre_hooks) }}
    {% do ctsql__make_room(target_relation) %}
    {% call statement('main') -%}
        {{ get_create_view_as_sql(target_relation, sql) }}
    {%- endcall %}
    {{ return(ctsql__finish(target_relation, post_hooks)) }}
{% endmaterialization %}

{% macro ctsql__create_view_as(relation, sql) -%}
    {%- if config.get('contract').enforced %}{{ get_assert_columns_equivalent(sql) }}{% endif -%}
    {{ config.get('sql_header') or '' }}
    create or replace view {{ relation.render() }} as {{ sql }}
{%- endmacro %}
