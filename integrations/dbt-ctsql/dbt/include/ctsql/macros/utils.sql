{% macro ctsql__array_append(array, new_element) -%}
    array_append({{ array }}, {{ new_element }})
{%- endmacro %}

{% macro ctsql__array_concat(array_1, array_2) -%}
    concat({{ array_1 }}, {{ array_2 }})
{%- endmacro %}

{% macro ctsql__array_construct(inputs, data_type) -%}
    {%- if inputs -%} array({{ inputs | join(', ') }}) {%- else -%} cast(array() as array<{{ data_type }}>) {%- endif -%}
{%- endmacro %}

{% macro ctsql__date(year, month, day) -%}
    date '{{ modules.datetime.date(year, month, day) }}'
{%- endmacro %}

{# The boundaries of the part between two times; Spark counts whole parts that have passed. #}
{% macro ctsql__datediff(first_date, second_date, datepart) -%}
    datediff({{ datepart }}, {{ date_trunc(datepart, first_date) }}, {{ date_trunc(datepart, second_date) }})
{%- endmacro %}

{% macro ctsql__escape_single_quotes(expression) -%}
    {{ expression | replace("'", "\\'") }}
{%- endmacro %}

{% macro ctsql__listagg(measure, delimiter_text, order_by_clause, limit_num) -%}
    {%- set all -%}
        listagg({{ measure }}, {{ delimiter_text }}) {% if order_by_clause %}within group ({{ order_by_clause }}){% endif %}
    {%- endset -%}
    {%- if limit_num -%} substring_index({{ all }}, {{ delimiter_text }}, {{ limit_num }}) {%- else -%} {{ all }} {%- endif -%}
{%- endmacro %}

{% macro ctsql__safe_cast(field, type) -%}
    try_cast({{ field }} as {{ type }})
{%- endmacro %}
