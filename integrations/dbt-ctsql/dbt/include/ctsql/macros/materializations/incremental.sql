{% materialization incremental, adapter='ctsql' %}
    {%- set target_relation = this.incorporate(type='table') -%}
    {%- set strategy = adapter.get_incremental_strategy_macro(context, config.get('incremental_strategy') or 'default') -%}
    {%- set on_schema_change = incremental_validate_on_schema_change(config.get('on_schema_change'), default='ignore') -%}
    {{ run_hooks(pre_hooks, inside_transaction=False) }}
    {{ run_hooks(pre_hooks) }}
    {% set existing_relation = ctsql__make_room(target_relation) %}
    {% if existing_relation is none or should_full_refresh() %}
        {% set build_sql = ctsql__build_table(existing_relation, target_relation, sql) %}
    {% else %}
        {% if config.get('contract').enforced %}{% do get_assert_columns_equivalent(sql) %}{% endif %}
        {# The strategies read the model's query in place of a temporary table: one statement, one commit. #}
        {% set rows = adapter.query_relation(sql) %}
        {% set dest_columns = process_schema_changes(on_schema_change, rows, existing_relation)
            or adapter.get_columns_in_relation(existing_relation) %}
        {% set build_sql = strategy({
            'target_relation': target_relation,
            'temp_relation': rows,
            'unique_key': config.get('unique_key'),
            'dest_columns': dest_columns,
            'incremental_predicates': config.get('predicates') or config.get('incremental_predicates'),
        }) %}
    {% endif %}
    {% call statement('main') -%}
        {{ build_sql }}
    {%- endcall %}
    {{ return(ctsql__finish(target_relation, post_hooks)) }}
{% endmaterialization %}

{% macro ctsql__get_incremental_default_sql(arg_dict) %}
    {{ return(get_incremental_merge_sql(arg_dict) if arg_dict.unique_key else get_incremental_append_sql(arg_dict)) }}
{% endmacro %}

{% macro ctsql__get_incremental_append_sql(arg_dict) %}
    {%- set columns = get_quoted_csv(arg_dict.dest_columns | map(attribute='name')) -%}
    insert into {{ arg_dict.target_relation }} ({{ columns }})
    select {{ columns }} from {{ arg_dict.temp_relation }}
{% endmacro %}

{% macro ctsql__get_incremental_delete_insert_sql(arg_dict) %}
    {%- set keys = arg_dict.unique_key -%}
    {{ return(ctsql__replace_keys(arg_dict, [keys] if keys is string else keys or [])) }}
{% endmacro %}

{# With partition_by, the partitions of the query's rows are replaced, NULL included; else all rows. #}
{% macro ctsql__get_incremental_insert_overwrite_sql(arg_dict) %}
    {%- set keys = config.get('partition_by') -%}
    {%- if keys -%}
        {{ return(ctsql__replace_keys(arg_dict, [keys] if keys is string else keys, '<=>')) }}
    {%- endif -%}
    {%- set columns = adapter.get_columns_in_relation(arg_dict.target_relation) | map(attribute='name') -%}
    insert overwrite {{ arg_dict.target_relation }} select {{ get_quoted_csv(columns) }} from {{ arg_dict.temp_relation }}
{% endmacro %}

{# The rows of a batch replace the table's rows in the batch's period. #}
{% macro ctsql__get_incremental_microbatch_sql(arg_dict) %}
    {%- set time = 'DBT_INTERNAL_DEST.' ~ config.get('event_time') -%}
    {%- set columns = get_quoted_csv(arg_dict.dest_columns | map(attribute='name')) -%}
    merge into {{ arg_dict.target_relation }} as DBT_INTERNAL_DEST
    using {{ arg_dict.temp_relation }} as DBT_INTERNAL_SOURCE
    on false
    when not matched then insert ({{ columns }}) values ({{ columns }})
    when not matched by source
    {%- for sign, bound in [('>=', model.batch.event_time_start), ('<', model.batch.event_time_end)] if bound %}
        and {{ time }} {{ sign }} timestamp '{{ bound }}'
    {%- endfor %}
    {%- for predicate in arg_dict.incremental_predicates or [] %}
        and {{ predicate }}
    {%- endfor %}
    then delete
{% endmacro %}

{# The source has each new row twice: to delete the old rows of its key, and to insert it. The new columns are
   fields of a struct, so a bare column in a predicate is the table's. #}
{% macro ctsql__replace_keys(arg_dict, keys, equals='=') -%}
    {%- if not keys -%}{{ return(get_incremental_append_sql(arg_dict)) }}{%- endif -%}
    {%- set names = arg_dict.dest_columns | map(attribute='name') | list -%}
    merge into {{ arg_dict.target_relation }} as DBT_INTERNAL_DEST
    using (
        select struct({{ get_quoted_csv(names) }}) as dbt_new, explode(array(true, false)) as dbt_is_key
        from {{ arg_dict.temp_relation }}
    ) as DBT_INTERNAL_SOURCE
    on DBT_INTERNAL_SOURCE.dbt_is_key
    {%- for key in keys %}
        and DBT_INTERNAL_DEST.{{ key }} {{ equals }} DBT_INTERNAL_SOURCE.dbt_new.{{ key }}
    {%- endfor %}
    {%- for predicate in arg_dict.incremental_predicates or [] %}
        and {{ predicate }}
    {%- endfor %}
    when matched then delete
    when not matched and not DBT_INTERNAL_SOURCE.dbt_is_key then insert ({{ get_quoted_csv(names) }}) values (
    {%- for name in names %}DBT_INTERNAL_SOURCE.dbt_new.{{ adapter.quote(name) }}{{ ', ' if not loop.last }}{% endfor -%}
    )
{%- endmacro %}
