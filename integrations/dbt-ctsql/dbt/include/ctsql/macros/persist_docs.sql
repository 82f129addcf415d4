{# Only comments that differ are written, so a second run commits nothing. #}
{% macro ctsql__persist_docs(relation, model, for_relation, for_columns) -%}
    {%- set described = adapter.describe(relation) -%}
    {% if for_relation and config.persist_relation_docs() and model.description != (described.comment or '') %}
        {% do run_query(alter_relation_comment(relation, model.description)) %}
    {% endif %}
    {% if for_columns and config.persist_column_docs() and model.columns %}
        {% set documented = validate_doc_columns(relation, model.columns, described.columns.keys() | list) %}
        {% set changed = {} %}
        {% for name, column in documented.items() %}
            {% if column.description != (described.comment_of(name) or '') %}
                {% do changed.update({name: column}) %}
            {% endif %}
        {% endfor %}
        {% if changed %}
            {% do run_query(alter_column_comment(relation, changed)) %}
        {% endif %}
    {% endif %}
{%- endmacro %}

{% macro ctsql__alter_relation_comment(relation, relation_comment) -%}
    comment on {{ (load_cached_relation(relation) or relation).keyword }} {{ relation.render() }} is {{ ctsql__text(relation_comment) }}
{%- endmacro %}

{% macro ctsql__alter_column_comment(relation, column_dict) -%}
    {% for name, column in column_dict.items() -%}
        comment on column {{ relation.render() }}.{{ adapter.quote(name) }} is {{ ctsql__text(column.description) }};
    {% endfor %}
{%- endmacro %}

{# A text as SQL spells it; NULL removes a comment. #}
{% macro ctsql__text(text) -%}
    {%- if text -%} '{{ text | replace('\\', '\\\\') | replace("'", "\\'") }}' {%- else -%} null {%- endif -%}
{%- endmacro %}
