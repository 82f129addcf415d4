{# The table that other programs append orders to. Drop this macro where it exists. #}
{% macro make_raw_orders() %}
    create table if not exists {{ source('shop', 'raw_orders') }}
    (id int, region string, status string, amount int, updated_at timestamp)
{% endmacro %}
