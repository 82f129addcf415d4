{# The model is the text after the task's name: ON INPUT a relation AS ( statements ). #}
{% materialization continual_task, adapter='ctsql' %}
    {%- set target_relation = this.incorporate(type='continual_task') -%}
    {{ run_hooks(pre_hooks, inside_transaction=False) }}
    {{ run_hooks(pre_hooks) }}
    {% set existing_relation = ctsql__make_room(target_relation) %}
    {% call statement('main') -%}
        create or replace continual task {{ target_relation.render() }}
        {%- if config.get('contract').enforced %} {{ adapter.column_list(model['columns'], model['constraints'], 'continual_task') }}{% endif %}
        {{ sql }}
        {%- if existing_relation is not none and should_full_refresh() -%}
        ;
        replay continual task {{ target_relation.render() }} from 0
        {%- endif -%}
    {%- endcall %}
    {{ return(ctsql__finish(target_relation, post_hooks)) }}
{% endmaterialization %}

{# The model is the text after the flow's target: FROM STREAM(a relation) KEYS (...) SEQUENCE BY ... #}
{% materialization auto_cdc, adapter='ctsql' %}
    {%- set target_relation = this.incorporate(type='materialized_view') -%}
    {%- set flow = this.incorporate(path={'identifier': config.get('flow') or this.identifier ~ '_flow'}) -%}
    {{ run_hooks(pre_hooks, inside_transaction=False) }}
    {{ run_hooks(pre_hooks) }}
    {% do ctsql__make_room(target_relation) %}
    {% call statement('main') -%}
        create or replace flow {{ flow.render() }} as auto cdc into {{ target_relation.render() }} {{ sql }}
    {%- endcall %}
    {{ return(ctsql__finish(target_relation, post_hooks)) }}
{% endmaterialization %}
