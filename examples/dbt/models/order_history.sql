{{ config(materialized='auto_cdc') }}

FROM STREAM({{ source('shop', 'raw_orders') }})
KEYS (id) SEQUENCE BY updated_at STORED AS SCD TYPE 2
