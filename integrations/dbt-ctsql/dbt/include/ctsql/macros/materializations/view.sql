{% materialization view, adapter='ctsql' %}
    {%- set target_relation = this.incorporate(type='view') -%}
    {{ run_hooks(pre_hooks, inside_transaction=False) }}
    {{ run_hooks(pre_hooks) }}
    {% do ctsql__make_room(target_relation) %}
    {% call statement('main') -%}
        {{ get_create_view_as_sql(target_relation, sql) }}
    {%- endcall %}
    {% do apply_grants(target_relation, config.get('grants'), should_revoke=False) %}
    {% do persist_docs(target_relation, model) %}
    {{ run_hooks(post_hooks) }}
    {{ run_hooks(post_hooks, inside_transaction=False) }}
    {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}

{% macro ctsql__create_view_as(relation, sql) -%}
    {%- if config.get('contract').enforced %}{{ get_assert_columns_equivalent(sql) }}{% endif -%}
    {{ config.get('sql_header') or '' }}
    create or replace view {{ relation.render() }} as {{ sql }}
{%- endmacro %}
